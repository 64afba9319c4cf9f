//! The encoding of protobuf: fields with a number and a value.

/// The value of a field. `f32` and `f64` values don't occur in the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// The encoded message ends in the middle of a field, or has a field of an unknown type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("proto: illegal wireType or unexpected EOF")]
pub(crate) struct InvalidMessage;

/// The fields of an encoded message, in their order.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn read(&mut self) -> Option<(u64, WireValue<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, WireValue<'a>), InvalidMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read().ok_or(InvalidMessage);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order() {
        // The fixed-size field 3 has eight bytes.
        let message = [8, 0xac, 2, 0x12, 2, b'h', b'i', 0x19, 1, 2, 3, 4, 5, 6, 7, 8];
        let fields: Vec<_> = Fields::new(&message).map(Result::unwrap).collect();
        let expected = [
            (1, WireValue::Varint(300)),
            (2, WireValue::Bytes(b"hi")),
            (3, WireValue::Bytes(&[1, 2, 3, 4, 5, 6, 7, 8])),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn truncated_message_is_an_error() {
        for message in [&[8_u8, 0x80][..], &[0x12, 5, b'h'], &[0x0b], &[0x80; 11]] {
            let fields: Vec<_> = Fields::new(message).collect();
            assert_eq!(fields, [Err(InvalidMessage)], "{message:?}");
        }
    }
}
