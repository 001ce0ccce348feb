"""AlterUserScramCredentials (key 51): set and remove passwords for SASL/SCRAM (KIP-554).

The password itself does not travel: the client salts it, which takes it some milliseconds.
"""

from ..errors import NONE
from ..primitives import Array, Bytes, ErrorCode, Int8, Int32, NullableString, String
from ..schema import Request, Response, Struct


class AlterUserScramCredentialsRequest(Request, api_key=51, versions="0", flexible="0+"):
    class Deletion(Struct):
        name: String
        mechanism: Int8
        """1: SCRAM-SHA-256. 2: SCRAM-SHA-512."""

    class Upsertion(Struct):
        name: String
        mechanism: Int8
        iterations: Int32
        salt: Bytes
        salted_password: Bytes
        """PBKDF2 of the password with this salt and so many iterations."""

    deletions: Array[Deletion]
    upsertions: Array[Upsertion]


class AlterUserScramCredentialsResponse(Response, to=AlterUserScramCredentialsRequest):
    class Result(Struct):
        user: String
        error_code: ErrorCode = NONE
        """UNACCEPTABLE_CREDENTIAL: no name, or too few or too many iterations. UNSUPPORTED_SASL_MECHANISM.
        RESOURCE_NOT_FOUND: there is nothing to delete. DUPLICATE_RESOURCE: the request names the credential twice.
        CLUSTER_AUTHORIZATION_FAILED."""
        error_message: NullableString = None

    throttle_time_ms: Int32 = 0
    results: Array[Result]
    """One for each user, whatever was asked for."""
