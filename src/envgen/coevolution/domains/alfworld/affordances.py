"""What fits where, and what can be done with an object: the common sense of the games that are generated here.

Types are written as in AI2-THOR's floor plans (`CounterTop`). Official games bring their own facts instead.
"""

OBJECTS_BY_KIND = {
    "food": ("Apple", "Bread", "Egg", "Lettuce", "Potato", "Tomato"),
    "dish": ("Bowl", "Cup", "Mug", "Plate"),
    "cookware": ("Kettle", "Pan", "Pot"),
    "cutlery": ("ButterKnife", "Fork", "Knife", "Ladle", "Spatula", "Spoon"),
    "spice": ("PepperShaker", "SaltShaker"),
    "bottle": ("Glassbottle", "Vase", "WineBottle"),
    "paper": ("Book", "Newspaper"),
    "stationery": ("Pen", "Pencil"),
    "pocket": ("CD", "CellPhone", "CreditCard", "KeyChain", "RemoteControl", "Watch"),
    "device": ("AlarmClock", "Laptop"),
    "bath": ("Candle", "SoapBar", "SoapBottle", "SprayBottle", "TissueBox", "ToiletPaper"),
    "cloth": ("Cloth", "DishSponge", "HandTowel"),
    "statue": ("Statue",),
    "sport": ("BaseballBat", "BasketBall", "TennisRacket"),
    "soft": ("Pillow", "TeddyBear"),
    "box": ("Box", "WateringCan"),
    "lamp": ("DeskLamp", "FloorLamp"),
}
KIND_OF = {name: kind for kind, names in OBJECTS_BY_KIND.items() for name in names}

_TABLE = (
    "food", "dish", "cookware", "cutlery", "spice", "bottle", "paper", "stationery", "pocket", "device", "bath",
    "cloth", "statue", "sport", "box", "lamp",
)  # fmt: skip
_SEAT = ("paper", "pocket", "soft", "box", "sport")
_STORAGE = ("dish", "cookware", "spice", "bottle", "paper", "bath", "cloth", "box")
KINDS_IN = {
    "ArmChair": _SEAT, "Bed": (*_SEAT, "device"), "Sofa": (*_SEAT, "device"), "Ottoman": _SEAT,
    "BathtubBasin": ("bath", "cloth"), "Cabinet": _STORAGE, "Cart": ("bath", "cloth", "dish", "statue"),
    "CoffeeTable": _TABLE, "CounterTop": _TABLE, "DiningTable": _TABLE, "SideTable": _TABLE, "Desk": _TABLE,
    "Dresser": _TABLE, "Shelf": _TABLE,
    "Drawer": ("cutlery", "spice", "paper", "stationery", "pocket", "bath", "cloth"),
    "Fridge": ("food", "dish", "cookware", "bottle"), "GarbageCan": ("food", "paper", "stationery", "bath", "cloth"),
    "HandTowelHolder": ("cloth",), "Microwave": ("food", "dish"), "Safe": ("pocket", "statue"),
    "SinkBasin": ("food", "dish", "cookware", "cutlery", "cloth"), "StoveBurner": ("cookware",),
    "TVStand": ("pocket", "paper", "statue", "bath"), "Toilet": ("bath", "cloth", "paper"),
    "ToiletPaperHanger": (),
}  # fmt: skip
OPENABLE = ("Cabinet", "Drawer", "Fridge", "Microwave", "Safe")
HOLDERS = ("Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot")  # objects that could hold others; here they are empty
LAMPS = OBJECTS_BY_KIND["lamp"]

_FOOD, _DISHES = set(OBJECTS_BY_KIND["food"]), set(OBJECTS_BY_KIND["dish"])
OBJECTS_WITH = {
    "pickupable": set(KIND_OF) - set(LAMPS),
    "cleanable": (_FOOD - {"Bread"}) | _DISHES | {"SoapBar", "Cloth", "DishSponge"}
    | set(OBJECTS_BY_KIND["cookware"]) | set(OBJECTS_BY_KIND["cutlery"]),
    "heatable": (_FOOD - {"Lettuce"}) | (_DISHES - {"Bowl"}),
    "coolable": _FOOD | _DISHES | {"Pan", "Pot", "WineBottle"},
    "toggleable": set(LAMPS),
    "sliceable": _FOOD,
}  # fmt: skip


def fits(object_type: str, receptacle_type: str) -> bool:
    """Whether objects of this type can be put in or on receptacles of that type."""
    return KIND_OF.get(object_type) in KINDS_IN.get(receptacle_type, ())
