"""boto3, as it comes, plays the table of cases (`cases/case.ts` says what it means).

Standard input: one JSON object of the endpoint, the keys of those who ask, and the cases. Standard output: one line of
JSON a case, with its name and why it failed, if it did.
"""
import datetime
import json
import re
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError

AT_ONCE = 8
BLOCK = bytes(((i * i + 7 * i) >> 3) & 255 for i in range(1021))


def client_of(endpoint, keys):
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, max_pool_connections=AT_ONCE),
    )


def bytes_of(value):
    size, start = value["$bytes"], value.get("$from", 0)
    return (BLOCK * ((start + size) // len(BLOCK) + 1))[start : start + size]


def filled(value, kept):
    if isinstance(value, str):
        whole = re.fullmatch(r"\{(\w+)\}", value)
        if whole and whole[1] in kept:
            return kept[whole[1]]
        return re.sub(r"\{(\w+)\}", lambda found: str(kept.get(found[1], found[0])), value)
    if isinstance(value, list):
        return [filled(one, kept) for one in value]
    if isinstance(value, dict):
        if "$bytes" in value:
            return bytes_of(value)
        if "$date" in value:
            return datetime.datetime.fromisoformat(value["$date"].replace("Z", "+00:00"))
        return {name: filled(one, kept) for name, one in value.items()}
    return value


def compare(found, expected, where, kept):
    if expected is None:
        good = found is None
    elif isinstance(found, bytes):
        good = found == (expected.encode() if isinstance(expected, str) else bytes_of(expected))
    elif isinstance(expected, list):
        good = isinstance(found, list) and len(found) == len(expected)
        for i, one in enumerate(expected if good else []):
            compare(found[i], one, f"{where}.{i}", kept)
    elif isinstance(expected, dict) and "$match" in expected:
        good = re.search(expected["$match"], str(found)) is not None
    elif isinstance(expected, dict) and "$decoded" in expected:
        good = urllib.parse.unquote(str(found)) == filled(expected["$decoded"], kept)
    elif isinstance(expected, dict) and "$date" in expected:
        good = isinstance(found, datetime.datetime)
    elif isinstance(expected, dict):
        good = isinstance(found, dict)
        for name, one in expected.items() if good else []:
            compare(found.get(name), one, f"{where}.{name}", kept)
    else:
        good = found == filled(expected, kept)
    if not good:
        raise AssertionError(f"{where}: {str(found)[:200]!r} is not {str(filled(expected, kept))[:200]!r}")


def answer_of(client, step, kept):
    call, refused = step["call"], step.get("refused")
    act = getattr(client, xform_name(call))
    try:
        answer = act(**filled(step["with"], kept))
    except ClientError as error:
        status = str(error.response["ResponseMetadata"]["HTTPStatusCode"])
        code = error.response["Error"]["Code"]
        if refused != (f"{status} {code}" if " " in (refused or "") else status):
            raise AssertionError(f"{call}: {status} {code}, not {refused or 'an answer'}") from error
        return {}
    if "Body" in answer:
        answer["Body"] = answer["Body"].read()
    if refused is not None:
        raise AssertionError(f"{call} was not refused: {refused}")
    return answer


def play(case, clients):
    kept = {"home": case["home"]}
    for step in case["steps"]:
        answer = answer_of(clients[step["as"]], step, kept)
        for name, value in step["gives"].items():
            compare(answer.get(name), value, f"{step['call']} {name}", kept)
        for name, path in step["keep"].items():
            value = answer
            for part in path.split("."):
                value = (value or {}).get(part)
            kept[name] = value


def outcome(case, clients):
    try:
        play(case, clients)
        return {"case": case["name"]}
    except Exception as error:  # every failure is a result
        return {"case": case["name"], "failed": f"{type(error).__name__}: {error}"[:400]}


def main():
    asked = json.load(sys.stdin)
    clients = {name: client_of(asked["endpoint"], keys) for name, keys in asked["keys"].items()}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for result in pool.map(lambda case: outcome(case, clients), asked["cases"]):
            print(json.dumps(result), flush=True)


main()
