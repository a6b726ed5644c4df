"""Declarations: the public facts about a data set as people write them: formulas, and schemas as plain data."""
