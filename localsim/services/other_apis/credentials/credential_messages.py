"""The messages of google.iam.credentials.v1 that are served, by the numbers of their fields.

They are those of googleapis, google/iam/credentials/v1; the package that has them is not among this
project's, and a name of their own lets it be loaded in the same process.
"""

import proto
from google.protobuf import duration_pb2, timestamp_pb2

__protobuf__ = proto.module(package="localsim.iam.credentials.v1")


class GenerateAccessTokenRequest(proto.Message):
    """For which account a token is wanted, for what and how long."""

    name = proto.Field(proto.STRING, number=1)
    delegates = proto.RepeatedField(proto.STRING, number=2)
    scope = proto.RepeatedField(proto.STRING, number=4)
    lifetime = proto.Field(proto.MESSAGE, number=7, message=duration_pb2.Duration)


class GenerateAccessTokenResponse(proto.Message):
    """A token, and when it ends."""

    access_token = proto.Field(proto.STRING, number=1)
    expire_time = proto.Field(proto.MESSAGE, number=3, message=timestamp_pb2.Timestamp)


class SignBlobRequest(proto.Message):
    """What an account is to sign."""

    name = proto.Field(proto.STRING, number=1)
    delegates = proto.RepeatedField(proto.STRING, number=3)
    payload = proto.Field(proto.BYTES, number=5)


class SignBlobResponse(proto.Message):
    """The signature, and the ID of its key."""

    key_id = proto.Field(proto.STRING, number=1)
    signed_blob = proto.Field(proto.BYTES, number=4)


class SignJwtRequest(proto.Message):
    """The claims, as JSON, that an account is to sign."""

    name = proto.Field(proto.STRING, number=1)
    delegates = proto.RepeatedField(proto.STRING, number=3)
    payload = proto.Field(proto.STRING, number=5)


class SignJwtResponse(proto.Message):
    """The signed token, and the ID of its key."""

    key_id = proto.Field(proto.STRING, number=1)
    signed_jwt = proto.Field(proto.STRING, number=2)


GENERATE_ACCESS_TOKEN = GenerateAccessTokenRequest.pb()
SIGN_BLOB = SignBlobRequest.pb()
SIGN_JWT = SignJwtRequest.pb()
