"""Shared by the scripts beside this one: standard input is one JSON object with endpoint and keys, standard output has one line
of JSON for each case, with its name, and the error if it failed."""
import json
import sys

ASKED = json.load(sys.stdin)
ENDPOINT = ASKED["endpoint"]
HOST = ENDPOINT.split("//")[1]
KEY = ASKED["keys"]["AccessKeyId"]
SECRET = ASKED["keys"]["SecretAccessKey"]
MIB = 1024 * 1024
NAMES = ASKED["names"]


def play(cases):
    """Each case uses what the one before it has stored."""
    for act in cases:
        result = {"case": act.__name__.replace("_", " ")}
        try:
            act()
        except Exception as error:  # every failure is a result
            result["failed"] = f"{type(error).__name__}: {error}"[:400]
        print(json.dumps(result), flush=True)


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"{str(found)[:200]!r} is not {str(expected)[:200]!r}")


def refused(kind, act, like=""):
    try:
        act()
    except kind as error:
        if like not in str(error):
            raise AssertionError(f"{str(error)[:200]!r} does not say {like!r}") from error
        return
    raise AssertionError("was not refused")
