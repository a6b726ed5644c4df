"""A slow reader of strict CSV, one character at a time: the oracle for `discreet.core.rows.csv_file`."""

from __future__ import annotations

__all__ = ["MalformedCsv", "records"]


class MalformedCsv(Exception):
    """The text is not CSV of the declared dialect."""


def records(text: str, delimiter: str = ",") -> list[list[str]]:
    """Records of fields, as many in each as in the first; a blank line is a record only where that is one."""
    found: list[list[str]] = []
    blank = True
    fields: list[str] = []
    field: list[str] = []
    state = "start"  # of a field; or "plain", "quoted", "closing" (behind a quote inside quotes), "return"
    for character in text if text.endswith("\n") else text + "\n":
        if state in ("return", "closed return") and character != "\n":
            if state == "closed return":
                raise MalformedCsv("text after a closing quote")
            field.append(" ")
            state, blank = "plain", False
        if state == "quoted":
            if character == '"':
                state = "closing"
            else:
                field.append(character)
        elif state == "closing" and character == '"':
            field.append('"')
            state = "quoted"
        elif character == '"':
            if state != "start":
                raise MalformedCsv("a quote inside a field")
            state = "quoted"
        elif character == delimiter:
            fields.append("".join(field))
            field, state = [], "start"
        elif character == "\r":
            state = "closed return" if state == "closing" else "return"
        elif character == "\n":
            if not blank or not found or len(found[0]) == 1:
                found.append([*fields, "".join(field)])
            fields, field, state, blank = [], [], "start", True
            continue
        elif state == "closing":
            raise MalformedCsv("text after a closing quote")
        else:
            field.append(character)
            state = "plain"
        blank = blank and character == "\r"
    if state in ("quoted", "closing") or fields or field:
        raise MalformedCsv("a quote that is never closed")
    if any(len(record) != len(found[0]) for record in found):
        raise MalformedCsv("another number of fields")
    return found
