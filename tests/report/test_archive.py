"""The archive of levels in a report."""

from envgen.report.archive import MAX_CARDS, archive_cards, archive_facts, archive_table

ENTRY = {
    "id": 7, "level": {"trees": "rare", "near": {"table": True}}, "priority": 0.25, "score": 0.5, "episodes": 3,
    "origin": {"designer": "accel", "kind": "mutation", "parent": 2}, "positive_value_loss": 0.5, "max_mc": 1.5,
    "learnability": 0.1, "mean_return": 2.0, "success_rates": {"collect_wood": 90.0, "place_table": 40.0, "swim": 0.0},
}  # fmt: skip
ARCHIVE = {
    "size": 1, "capacity": 8, "score": "positive_value_loss", "levels_tried": 1234, "ranking_steps": 5678,
    "episodes": {"replay": 10, "mutation": 4}, "levels": [ENTRY],
}  # fmt: skip


def test_archive_is_described():
    facts = archive_facts(ARCHIVE) or ""
    assert "holds 1 of 1,234 levels tried so far, ranked by positive value loss" in facts
    assert "10 replayed, 4 in new mutations" in facts
    assert "5,678 steps went into measuring levels" in facts
    [card] = archive_cards(ARCHIVE)
    assert card["level"] == ENTRY["level"]
    assert card["purpose"] == (
        "Archived level 7 (mutation of level 2), positive value loss 0.500, priority 25.0%, 3 episodes, "
        "most learnable skill: place_table (40%)"
    )
    table = archive_table(ARCHIVE)
    assert table is not None
    assert "trees rare, near.table true" in table
    assert len(archive_cards({**ARCHIVE, "levels": [ENTRY] * 9})) == MAX_CARDS


def test_level_without_partial_success_names_no_skill():
    [card] = archive_cards({**ARCHIVE, "levels": [{**ENTRY, "success_rates": {"swim": 0.0, "wake_up": 100.0}}]})
    assert "learnable" not in card["purpose"]


def test_levels_with_a_map_of_their_own_have_its_seed():
    archive = {**ARCHIVE, "levels": [{**ENTRY, "seed": 1234567}]}
    assert "level 7 (mutation of level 2, map seed 1234567), " in archive_cards(archive)[0]["purpose"]
    assert "trees rare, near.table true, map seed 1234567" in (archive_table(archive) or "")


def test_what_a_sampler_of_your_own_does_not_say_is_left_out():
    assert archive_facts({"drawn": 8}) is None
    assert archive_facts({"episodes": {"random": 3}}) == '<p class="note">Episodes so far: 3 in new random levels.</p>'
    assert "The archive holds 2 levels." in (archive_facts({"size": 2}) or "")


def test_damaged_archive_is_shown_as_far_as_possible():
    damaged = {
        "score": "<b>", "episodes": [1], "size": 3, "levels_tried": "many",
        "levels": [5, {"level": 3, "id": "x", "origin": "y", "priority": None, "success_rates": [1]}],
    }  # fmt: skip
    assert "The archive holds 3 levels, ranked by &lt;b&gt;." in (archive_facts(damaged) or "")
    assert len(archive_cards(damaged)) == 2
    assert "the original" in (archive_table(damaged) or "")
    assert archive_table({"levels": "none"}) is None
    assert archive_cards({}) == []
