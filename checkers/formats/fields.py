"""Fields of variable length: varints, bytes that may be null, and fields of flexible versions."""

import base64
import struct


class MalformedError(ValueError):
    """Bytes do not have the documented shape; the message says what disagrees."""


_MAX_VARINT_BITS = 63
_MAX_LENGTH_BITS = 31


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return a zigzag variable-length integer and the position behind it.

    Raises `IndexError` at the end of the data, `MalformedError` beyond 64 bits.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    raw, position = read_unsigned_varint(data, position, most_bits=_MAX_VARINT_BITS)
    return (raw >> 1) ^ -(raw & 1), position


def read_unsigned_varint(
    data: bytes | memoryview, position: int, *, most_bits: int
) -> tuple[int, int]:
    """Return an unsigned variable-length integer and the position behind it.

    Raises `IndexError` at the end of the data, `MalformedError` if its last byte would begin above
    `most_bits`.
    """
    value = 0
    for shift in range(0, most_bits + 1, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedError(f"a variable-length integer has more than {most_bits + 1} bits")


def take_nullable(data: bytes | memoryview, position: int, length: int) -> tuple[bytes | None, int]:
    """Return so many bytes, None for a negative length, and the position behind them.

    Raises `MalformedError` if the data ends before.
    """
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise MalformedError(f"a field of {length} bytes does not fit")
    return bytes(data[position:end]), end


def varint(value: int) -> bytes:
    """Return the zigzag variable-length form of a number of at most 64 bits."""
    return unsigned_varint((value << 1) ^ (value >> 63))


def unsigned_varint(value: int) -> bytes:
    """Encode a non-negative number as an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class CompactReader:
    """Reads fields of a flexible version of Kafka's message format, one after the other.

    Each method raises `IndexError` or `struct.error` where the bytes end, `MalformedError` for a
    length of more than 32 bits.
    """

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._at = 0

    @property
    def left(self) -> int:
        """Number of bytes that were not read."""
        return len(self._value) - self._at

    def varint(self) -> int:
        """Read an unsigned varint."""
        value, self._at = read_unsigned_varint(self._value, self._at, most_bits=_MAX_LENGTH_BITS)
        return value

    def number(self, form: str) -> int:
        """Read a number in a form of `struct`."""
        return int(self._take(form))

    def real(self) -> float:
        """Read a floating-point number of 64 bits."""
        return float(self._take(">d"))

    def octets(self) -> bytes | None:
        """Read bytes, or the bytes of a text, after their length; None for null."""
        length = self.varint() - 1
        return None if length < 0 else self.exactly(length)

    def exactly(self, length: int) -> bytes:
        """Read this many bytes."""
        if length > self.left:
            raise IndexError(f"{length} bytes are announced, and {self.left} are there")
        value = self._value[self._at : self._at + length]
        self._at += length
        return value

    def uuid(self) -> str:
        """Read a uuid, as Kafka prints it."""
        return base64.urlsafe_b64encode(self.exactly(16)).rstrip(b"=").decode()

    def tags(self) -> dict[int, bytes]:
        """Read the tagged fields, each with its bytes."""
        return {self.varint(): self.exactly(self.varint()) for _ in range(self.varint())}

    def _take(self, form: str) -> int | float:
        (value,) = struct.unpack_from(form, self._value, self._at)
        self._at += struct.calcsize(form)
        assert isinstance(value, int | float)
        return value
