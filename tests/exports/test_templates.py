"""Templates write values through filters that quote them, and no other way."""

import pytest
import yaml
from jinja2 import UndefinedError
from test_export_mixture import MARKS

from bimix.exports.write import ENVIRONMENT

OUTSIDE = "a'b\"c: {d}"


def test_a_value_that_no_filter_has_quoted_ends_the_template() -> None:
    for text in ("{{ path }}", "{{ 'a' ~ path | yaml }}", "{{ 0.5 }}", "{{ [path] | join(',') }}"):
        with pytest.raises(TypeError, match="without a filter that quotes it"):
            ENVIRONMENT.from_string(text).render(path=OUTSIDE)


def test_a_name_that_a_template_does_not_have_ends_it() -> None:
    for text in ("paht | python", "[paht] | python", "paht | repr", "[paht] | csv", "paht | shell"):
        with pytest.raises(UndefinedError, match="'paht' is undefined"):
            ENVIRONMENT.from_string(f"{{{{ {text} }}}}").render(path=OUTSIDE)


def test_a_scalar_of_yaml_is_one_line_and_read_as_it_was_as_a_key_and_a_value() -> None:
    """A line separator is a line break in YAML 1.1 and none in 1.2."""
    words = ["no", "1.5", "~", "", "a\nb", "a\n", "a\u2028b", "a\x85 b", "x y " * 400]
    for name in (*MARKS, "".join(MARKS), *words):
        text = ENVIRONMENT.from_string("a:\n  {{ name | yaml }}:\n  - {{ name | yaml }}\n").render(name=name)
        assert len(text.splitlines()) == 3
        if len(name) < 1000:  # a longer key has no single line in YAML
            assert yaml.safe_load(text) == {"a": {name: [name]}}
        assert yaml.safe_load(text.splitlines()[2].strip()) == [name]
