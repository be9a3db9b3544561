"""Calls in replies: Python, Java, JavaScript, native; and hostile replies, which are refused and never executed."""

import pytest

from envgen.designers.chat.protocol import ToolCall
from envgen.function_calls.calls import Call, CallError, parse_calls, parse_native, write_call
from envgen.function_calls.checker import check_calls
from envgen.function_calls.foreign import read_java, read_javascript, write_java, write_javascript

pytestmark = pytest.mark.filterwarnings("ignore:invalid")  # escape sequences and literals in hostile replies
PYTHON = [
    ("[f(a=1)]", [Call("f", {"a": 1})]),
    ("f(a=-1.5, b='x')", [Call("f", {"a": -1.5, "b": "x"})]),
    ("```python\n[a.b.c(x=[1, (2, 3)]), g()]\n```", [Call("a.b.c", {"x": [1, (2, 3)]}), Call("g", {})]),
    ("```f(a=1)```", [Call("f", {"a": 1})]),
    ("```python [f(a=1)]```", [Call("f", {"a": 1})]),
    ("```python3\nf(a=1)\n```", [Call("f", {"a": 1})]),
    ("`f(a=True, b=None)`", [Call("f", {"a": True, "b": None})]),
    ("f(a=5*60, b='x'+'y', c=variable, d={'k': [1]})",
     [Call("f", {"a": 300, "b": "xy", "c": "variable", "d": {"k": [1]}})]),
    ("f(a=g(b=1), c=h(2), d=x[0])", [Call("f", {"a": {"g": {"b": 1}}, "c": "h(2)", "d": "x[0]"})]),
    ("f(1, a=2)", [Call("f", {"a": 2}, (1,))]),
    ("[]", []),
    ("", []),
]  # fmt: skip
REFUSED = [
    "I cannot do that.", "f", "[f(a=1), 2]", "f(a=1", "f(a=1, a=2)", "f(**x)", "f(a=lambda: 1)", "f(a=[x for x in y])",
    "(lambda: 1)()", "f(a=1)(b=2)", "f(a=f'{x}')", "f(a=9**9**9)", "f(a=1/0)", "f(a=1e400*1e400)", "f(a='x'*10**9)",
    "f(a=not x)", "f(a=b.c)", "f(a=await x)", "f(a=(yield))", "import os", "f(a={**x})", "f(a=b:=1)", "\0f(a=1)",
    "f(a='\ud800", "[" * 100_000, "f(" * 5000, "-" * 40_000 + "1", "f(a=" + "1+" * 20_000 + "1)",
    "f(a=" + "-" * 20_000 + "1)", "f(a=" + "not " * 9000 + "x)", "f" + ".a" * 9000 + "()", "f(a=b'\\xff' 'x')",
    "f(a=" + "lambda:" * 6000 + "1)", "f(a=" + "x" * 60_000 + ")", "f(a=" + "1" * 40_000 + ")",
    "[" + "f()," * 201 + "]", "f(a=" + "{1:" * 80 + "1" + "}" * 80 + ")",
    "f(a=" + "x if y else " * 4000 + "z)", "__import__('os').system('true')(x=1)",
]  # fmt: skip
JAVA = [
    ("f(a=new int[]{1, 2}, b=\"x, y\")", [Call("f", {"a": "new int[]{1, 2}", "b": "x, y"})]),
    ("[A.b(c='x', d=true, e=5L);]", [Call("A.b", {"c": "x", "d": "true", "e": "5L"})]),
    ("f(a=x == y, b=\"a = b\")", [Call("f", {"a": "x == y", "b": "a = b"})]),
    ("f(x)", [Call("f", {}, ("x",))]),
    ("f(a=new HashMap<String, Integer>() {{ put(\"k\", 1); }})",
     [Call("f", {"a": "new HashMap<String, Integer>() {{ put(\"k\", 1); }}"})]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "calls"), PYTHON)
def test_python_calls_are_read(text, calls):
    assert parse_calls(text) == calls


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_other_replies_are_refused(text):
    with pytest.raises(CallError):
        parse_calls(text)


@pytest.mark.parametrize(("text", "calls"), JAVA)
def test_java_calls_are_read(text, calls):
    assert parse_calls(text, "java") == calls


@pytest.mark.parametrize(
    "text", ["f(a=1", "f(a=1, a=2)", "f(a='x)", "f()()", "x = f(a=1)", "f(a=" + "(" * 999, "\0", "f)(", "1()"]
)
def test_other_java_is_refused(text):
    with pytest.raises(CallError):
        parse_calls(text, "java")


def test_calls_are_written_and_read():
    calls = [Call("a.f", {"x": 1, "y": 'it\'s "so"\n', "z": [{"k": (1.5, None)}]})]
    assert parse_calls(f"[{', '.join(map(write_call, calls))}]") == calls


def test_native_calls_are_read():
    calls = [ToolCall(name="a_f", arguments='{"x": 1}'), ToolCall(name="g", arguments="")]
    assert parse_native(calls, {"a_f": "a.f"}) == [Call("a.f", {"x": 1}), Call("g", {})]
    for arguments in ("[1]", "{", "null", '"x"', '{"x":' * 5000, "\0", "1" * 60_000):
        with pytest.raises(CallError, match="the arguments of 'f'"):
            parse_native([ToolCall(name="f", arguments=arguments)], {})


@pytest.mark.parametrize(
    ("source", "kind", "element_kind", "value"),
    [
        ("5", "integer", None, 5),
        ("5.0", "integer", None, "5.0"),
        ("5L", "long", None, 5),
        ("5", "long", None, "5"),
        ("1.5f", "float", None, 1.5),
        ("1e3", "double", None, 1000.0),
        ("true", "boolean", None, True),
        ("True", "boolean", None, "True"),
        ("variable", "Array", "String", "variable"),
        ('new String[]{"a, b", "c"}', "Array", "String", ["a, b", "c"]),
        ("new int[] { 1, 2 }", "Array", "integer", [1, 2]),
        ("new int[]{}", "Array", "integer", []),
        ('new ArrayList<>(Arrays.asList("a", "b"))', "ArrayList", "String", ["a", "b"]),
        ("new ArrayList<Long>() {{ add(1L); add(2L); }}", "ArrayList", "long", [1, 2]),
        ("new ArrayList<>()", "ArrayList", "any", []),
        ('new ArrayList<>(Arrays.asList("a", 1, true))', "ArrayList", "any", ["a", 1, True]),
        ('new HashMap<String, Object>() {{ put("k", 1); put("l", "x"); }}', "HashMap", None, {"k": 1, "l": "x"}),
        ("new HashMap<>()", "HashMap", None, {}),
        ("new HashMap<>() {{ clear(); }}", "HashMap", None, "new HashMap<>() {{ clear(); }}"),
        ("9" * 5000, "integer", None, "9" * 5000),
        ("new int[]{" * 900, "Array", "integer", "new int[]{" * 900),
    ],
)
def test_java_values(source, kind, element_kind, value):
    assert read_java(source, kind, element_kind) == value


@pytest.mark.parametrize(
    ("source", "kind", "element_kind", "value"),
    [
        ("5", "integer", None, 5),
        ("5n", "Bigint", None, 5),
        ("5", "float", None, 5.0),
        ("'x'", "String", None, "x"),
        ("false", "Boolean", None, False),
        ('["a", "b, c"]', "array", "String", ["a", "b, c"]),
        ("new Array(1, 2)", "array", "integer", [1, 2]),
        ("[[1, 2], [3]]", "array", "array", [[1, 2], [3]]),
        ('{"a": 1, b: {c: [true]}}', "dict", None, {"a": 1, "b": {"c": [True]}}),
        ("{}", "dict", None, {}),
        ("name", "dict", None, "name"),
        ("{" * 900 + "}" * 900, "dict", None, "{" * 900 + "}" * 900),
    ],
)
def test_javascript_values(source, kind, element_kind, value):
    assert read_javascript(source, kind, element_kind) == value


def test_values_are_written_and_read():
    assert read_java(write_java(["a", "b"], "Array", "String"), "Array", "String") == ["a", "b"]
    assert read_java(write_java({"k": 1}, "HashMap"), "HashMap") == {"k": 1}
    assert read_javascript(write_javascript({"k": ["x", 1]}, "dict"), "dict") == {"k": ["x", 1]}


FUNCTION = {
    "name": "book",
    "parameters": {
        "properties": {
            "city": {"type": "string"}, "nights": {"type": "integer"}, "price": {"type": "float"},
            "guests": {"type": "array", "items": {"type": "string"}}, "options": {"type": "dict"},
        },
        "required": ["city"],
    },
}  # fmt: skip
EXPECTED = {
    "book": {
        "city": ["New York", "NYC"], "nights": [2], "price": [99.5, ""], "guests": [["Ann", "Bo"], ""],
        "options": [{"view": ["sea"], "floor": [3, ""]}, ""],
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"city": "NYC", "nights": 2}, None),
        ({"city": "new-york.", "nights": 2, "price": 99.5}, None),
        ({"city": "NYC", "nights": 2, "guests": ["ann", "BO"]}, None),
        ({"city": "NYC", "nights": 2, "options": {"view": "Sea"}}, None),
        ({"nights": 2}, "missing argument"),
        ({"city": "NYC"}, "missing argument"),
        ({"city": "NYC", "nights": 2, "x": 1}, "unexpected argument"),
        ({"city": "Boston", "nights": 2}, "wrong value"),
        ({"city": "NYC", "nights": "2"}, "wrong type"),
        ({"city": "NYC", "nights": 2.0}, "wrong type"),
        ({"city": "NYC", "nights": True}, "wrong type"),
        ({"city": "NYC", "nights": 2, "price": 99}, "wrong value"),
        ({"city": "NYC", "nights": 2, "price": 10**400}, "wrong type"),
        ({"city": "NYC", "nights": 2, "guests": ["Bo", "Ann"]}, "wrong value"),
        ({"city": "NYC", "nights": 2, "guests": [1]}, "wrong value"),
        ({"city": "NYC", "nights": 2, "options": {"view": "sea", "floor": 4}}, "wrong value"),
        ({"city": "NYC", "nights": 2, "options": {"floor": 3}}, "wrong value"),
        ({"city": ["NYC"], "nights": 2}, "wrong type"),
    ],
)
def test_arguments_are_checked(arguments, error):
    mismatch = check_calls([FUNCTION], [Call("book", arguments)], [EXPECTED], "python")
    assert (mismatch and mismatch.error) == error


def test_parallel_calls_come_in_any_order():
    calls = [Call("book", {"city": city, "nights": 2}) for city in ("Rome", "Oslo")]
    expected = [{"book": {"city": [city], "nights": [2]}} for city in ("Oslo", "Rome")]
    assert check_calls([FUNCTION], calls, expected, "python") is None
    assert check_calls([FUNCTION], calls[:1], expected, "python").error == "wrong number of calls"  # pyright: ignore
    assert check_calls([FUNCTION], [calls[0]] * 2, expected, "python").error == "no matching call"  # pyright: ignore
    assert check_calls([FUNCTION], [Call("x", {})], expected[:1], "python").error == "wrong function"  # pyright: ignore
