"""Fields of variable length: varints, and bytes that may be null."""


class MalformedError(ValueError):
    """Bytes do not have the documented shape; the message says what disagrees."""


_MAX_VARINT_BITS = 63


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
