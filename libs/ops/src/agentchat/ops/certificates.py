"""Issue certificates for servers that run elsewhere, signed by an authority of our own."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = datetime.timedelta(days=2 * 365)
_EARLIER = datetime.timedelta(days=1)
"""Clocks differ."""


class Authority:
    """A certificate authority; its certificates are valid for two years from `now`."""

    def __init__(self, now: datetime.datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agentchat authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._start_builder(self._name, self._key.public_key())
        self._certificate = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> bytes:
        """The authority's certificate in PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key(self) -> bytes:
        """The authority's private key in PEM, not encrypted."""
        return _encode_pem(self._key)

    def issue(self, *hosts: str) -> tuple[bytes, bytes]:
        """Issue a server certificate for these host names. Return it and its key, both in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        # Servers of a cluster are each other's clients.
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            self._start_builder(name, key.public_key())
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM), _encode_pem(key)

    def _start_builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _EARLIER)
            .not_valid_after(self._now + _VALID)
        )


def _encode_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
