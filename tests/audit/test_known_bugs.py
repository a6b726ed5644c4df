"""How many of the known bugs of this field the audits find."""

from tests.planted_known_bugs import CORPUS, FAULTS


def test_every_known_bug_is_found(capsys):
    findings = {name: FAULTS[name]() for name in CORPUS}
    found = [name for name, finding in findings.items() if finding.caught]
    with capsys.disabled():
        print(f" finds {len(found)} of {len(CORPUS)} known bugs ", end="")
    assert len(CORPUS) >= 25
    assert set(CORPUS) == set(found)
