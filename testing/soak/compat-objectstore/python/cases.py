"""What the scripts beside this one have in common: standard input is one JSON object with the endpoint and keys, standard
output one line of JSON a case, with its name and why it failed, if it did."""
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
    """Each builds on the one before."""
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
