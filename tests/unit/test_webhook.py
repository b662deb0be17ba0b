"""Callback tokens, and Standard Webhooks signatures: the example of the standard, signatures computed independently,
and every rejection."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from windlass.core.events import webhook
from windlass.core.events.webhook import TOLERANCE, Scheme, secret_mistake, signature, signature_mistake, signed_id

ID, MOMENT = "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"
NOW = datetime.fromtimestamp(int(MOMENT), UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
RUN = UUID("01890a5d-ac96-774b-bcce-b302099a8057")

VECTORS = [
    (SECRET, ID, MOMENT, BODY, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ("plain text secret", "msg_1", "1700000000", b"", None),
    ("whsec_" + b64encode(bytes(range(32))).decode(), "msg_2", "1700000000", b"\x00\xff\xfe not text", None),
    ("whsec_not base64!", "msg_3", "1700000000", b"{}", None),
    ("geheim-\N{LATIN SMALL LETTER U WITH DIAERESIS}", "msg_4", "0", b"[1, 2]", None),
]


def by_hand(secret: str, id_: str, moment: str, body: bytes) -> str:
    """Return the signature as the standard defines it: base64(HMAC-SHA256(decoded secret, id.timestamp.body))."""
    try:
        key = b64decode(secret[6:], validate=True) if secret[:6] == "whsec_" else secret.encode()
    except ValueError:
        key = secret.encode()
    return b64encode(hmac.new(key, f"{id_}.{moment}.".encode() + body, hashlib.sha256).digest()).decode()


def headers(**changed: str) -> dict[str, str]:
    told = {"id": ID, "timestamp": MOMENT, "signature": f"v1,{signature(SECRET, ID, MOMENT, BODY)}", **changed}
    return {f"webhook-{name}": value for name, value in told.items() if value}


@pytest.mark.parametrize(("secret", "id_", "moment", "body", "known"), VECTORS)
def test_a_signature_equals_that_of_the_standard(
    secret: str, id_: str, moment: str, body: bytes, known: str | None
) -> None:
    made = signature(secret, id_, moment, body)
    assert made == (known or by_hand(secret, id_, moment, body))
    told = {"webhook-id": id_, "webhook-timestamp": moment, "webhook-signature": f"v1,{made}"}
    assert signature_mistake(secret, told, body, datetime.fromtimestamp(int(moment), UTC)) is None


@pytest.mark.parametrize("sign", [1, -1])
def test_a_timestamp_may_differ_from_the_current_time_by_up_to_five_minutes(sign: int) -> None:
    assert signature_mistake(SECRET, headers(), BODY, NOW + sign * TOLERANCE) is None
    late = NOW + sign * (TOLERANCE + timedelta(seconds=1))
    assert (
        signature_mistake(SECRET, headers(), BODY, late)
        == "webhook-timestamp differs from the current time by more than 5 minutes"
    )


@pytest.mark.parametrize("missing", ["id", "timestamp", "signature"])
def test_all_three_headers_are_required(missing: str) -> None:
    assert "are required" in str(signature_mistake(SECRET, headers(**{missing: ""}), BODY, NOW))


@pytest.mark.parametrize("moment", ["soon", "-1", "1e9", "16142653300000", "١٦١٤٢٦٥٣٣٠", "1614265330.0", " 1614265330"])
def test_a_timestamp_is_a_whole_number_of_seconds(moment: str) -> None:
    assert (
        signature_mistake(SECRET, headers(timestamp=moment), BODY, NOW)
        == "webhook-timestamp is not a number of seconds"
    )


def test_one_valid_signature_is_enough_and_unknown_versions_are_ignored() -> None:
    good = f"v1,{signature(SECRET, ID, MOMENT, BODY)}"
    for given in (f"v1,AAAA {good}", f"{good} v1,AAAA", f"v1a,xyz v2,abc {good}", f"  {good}  "):
        assert signature_mistake(SECRET, headers(signature=given), BODY, NOW) is None


@pytest.mark.parametrize(
    "given", ["v1,AAAA", "v1,", "v1", "v2," + signature(SECRET, ID, MOMENT, BODY), "é", "v1,é€", ","]
)
def test_a_wrong_signature_is_refused(given: str) -> None:
    assert signature_mistake(SECRET, headers(signature=given), BODY, NOW) == "webhook-signature does not match"


def test_a_signature_is_for_one_body_one_id_one_time_and_one_secret() -> None:
    refused = "webhook-signature does not match"
    assert signature_mistake(SECRET, headers(), BODY + b" ", NOW) == refused
    assert signature_mistake(SECRET, headers(id="msg_other"), BODY, NOW) == refused
    assert signature_mistake(SECRET, headers(timestamp=str(int(MOMENT) + 1)), BODY, NOW) == refused
    assert signature_mistake(SECRET + "BBBB", headers(), BODY, NOW) == refused


def test_no_error_contains_the_secret_or_the_expected_signature() -> None:
    told = str(signature_mistake(SECRET, headers(signature="v1,AAAA"), BODY, NOW))
    assert SECRET not in told
    assert signature(SECRET, ID, MOMENT, BODY) not in told


def test_a_token_is_deterministic_and_url_safe_and_has_256_bits() -> None:
    token = webhook.callback_token(b"key", RUN, 3)
    assert token == webhook.callback_token(b"key", RUN, 3)
    assert len(token) == 43
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert len(b64decode(token.replace("-", "+").replace("_", "/") + "=")) * 8 == 256


def test_a_token_belongs_to_one_key_one_run_one_step_and_one_round() -> None:
    places = [(run, step, round_) for run in (RUN, UUID(int=1)) for step in (0, 1, 256) for round_ in (0, 1, 2)]
    assert len({webhook.callback_token(key, *place) for key in (b"a", b"b") for place in places}) == 36


def test_the_token_of_the_first_round_equals_that_of_older_releases() -> None:
    mark = hmac.digest(b"key", RUN.bytes + (3).to_bytes(4, "big"), "sha256")
    assert webhook.callback_token(b"key", RUN, 3) == b64encode(mark, b"-_").decode().rstrip("=")


def test_any_string_sent_as_a_token_has_a_sha256_digest() -> None:
    assert webhook.token_digest("abc") == hashlib.sha256(b"abc").digest()
    for odd in ("", "é", "\x00", "\ud800", "a" * 10_000):
        assert len(webhook.token_digest(odd)) == 32


# Other schemes


def github(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    return {"x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest()}


def stripe(body: bytes = BODY, secret: str = SECRET, moment: str = MOMENT) -> dict[str, str]:
    mark = hmac.new(secret.encode(), f"{moment}.".encode() + body, "sha256").hexdigest()
    return {"stripe-signature": f"t={moment},v1=0000,v1={mark},v0=x"}


def test_github_signs_the_body() -> None:
    assert signature_mistake(SECRET, github(), BODY, NOW, Scheme.GITHUB) is None
    assert signature_mistake(SECRET, github(), BODY + b" ", NOW, Scheme.GITHUB) == "x-hub-signature-256 does not match"
    assert (
        signature_mistake(SECRET, github(secret="x" * 20), BODY, NOW, Scheme.GITHUB)
        == "x-hub-signature-256 does not match"
    )
    assert signature_mistake(SECRET, {}, BODY, NOW, Scheme.GITHUB) == "the header x-hub-signature-256 is required"


def test_a_replay_with_another_stripe_header_has_the_same_id() -> None:
    replayed = {"stripe-signature": stripe()["stripe-signature"] + ",v0=y"}
    assert signed_id(replayed, BODY, Scheme.STRIPE) == signed_id(stripe(), BODY, Scheme.STRIPE)
    assert signed_id(stripe(), b"other", Scheme.STRIPE) != signed_id(stripe(), BODY, Scheme.STRIPE)


def test_stripe_signs_the_time_and_the_body() -> None:
    assert signature_mistake(SECRET, stripe(), BODY, NOW, Scheme.STRIPE) is None
    assert signature_mistake(SECRET, stripe(), b"", NOW, Scheme.STRIPE) == "stripe-signature does not match"
    late = NOW + TOLERANCE + timedelta(seconds=1)
    assert (
        signature_mistake(SECRET, stripe(), BODY, late, Scheme.STRIPE)
        == "t in stripe-signature differs from the current time by more than 5 minutes"
    )
    for given in ({}, {"stripe-signature": f"t={MOMENT}"}, {"stripe-signature": "v1=00"}, {"stripe-signature": ",=,"}):
        assert (
            signature_mistake(SECRET, given, BODY, NOW, Scheme.STRIPE)
            == "the header stripe-signature with t and v1 is required"
        )


@pytest.mark.parametrize(
    ("secret", "scheme", "message"),
    [
        ("x" * 15, Scheme.STANDARD, "it has 15 characters, at least 16 are required"),
        ("whsec_", Scheme.STANDARD, "decodes to 0 bytes, at least 24 are required"),
        ("whsec_" + "A" * 28, Scheme.STANDARD, "decodes to 21 bytes, at least 24 are required"),
        ("whsec_" + "!" * 40, Scheme.STANDARD, "is not base64"),
        ("short", Scheme.STRIPE, "it has 5 characters"),
    ],
)
def test_a_weak_secret_is_refused(secret: str, scheme: Scheme, message: str) -> None:
    assert message in str(secret_mistake(secret, scheme))


def test_a_strong_secret_is_not_refused() -> None:
    assert [secret_mistake(secret) for secret in ("x" * 16, "whsec_" + "A" * 32)] == [None, None]
    assert secret_mistake("whsec_0123456789", Scheme.STRIPE) is None  # Stripe's are used as they are
