"""Signs a proof's hash, and checks signatures.

Ed25519 by cryptography; PEM keys as of `openssl genpkey -algorithm ed25519`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_SIGNATURE_BYTES = 64
_INSTALL = 'pip install "sweepdb[sign]"'
_MAKE_KEYS = "make one with: openssl genpkey -algorithm ed25519 -out key.pem"
_MAKE_PUBLIC = "make one with: openssl pkey -in key.pem -pubout -out pub.pem"


def signed(sha256: str, key_file: Path) -> str:
    return base64.b64encode(_private_key(key_file).sign(sha256.encode())).decode()


def check_spelling(path: Path, signature: object) -> None:
    """Base64 in its one spelling, of Ed25519's length."""
    try:
        raw = base64.b64decode(str(signature), validate=True)
    except ValueError:
        raw = b""
    if len(raw) != _SIGNATURE_BYTES or base64.b64encode(raw).decode() != signature:
        raise InputError(f"{path}: was changed after it was written: its signature is none")


def check_signature(sha256: str, signature: object, public_file: Path) -> None:
    from cryptography.exceptions import InvalidSignature

    key = _public_key(public_file)
    if not isinstance(signature, str):
        raise InputError("the proof is not signed", hint="write it with `sign=KEY.pem`")
    try:
        key.verify(base64.b64decode(signature, validate=True), sha256.encode())
    except (InvalidSignature, ValueError) as error:
        raise InputError(f"the proof was not signed with the key of {public_file}") from error


def _private_key(path: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise InputError("signing needs the package cryptography", hint=_INSTALL) from error
    try:
        key = load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: not a private key that is not encrypted", hint=_MAKE_KEYS) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: not an Ed25519 key", hint=_MAKE_KEYS)
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise InputError("checking a signature needs the package cryptography", hint=_INSTALL) from error
    try:
        key = load_pem_public_key(_read(path))
    except ValueError as error:
        raise InputError(f"{path}: not a public key", hint=_MAKE_PUBLIC) from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path}: not an Ed25519 key", hint=_MAKE_PUBLIC)
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
