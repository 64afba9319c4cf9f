//! Parses quoted strings.

/// Unquotes a string. `None` if it isn't enclosed in `quote`, or if it contains an unescaped
/// `quote`, a control character or an invalid escape. Invalid UTF-8 and unpaired surrogates become
/// U+FFFD.
pub(crate) fn unquote(quoted: &[u8], quote: u8) -> Option<Vec<u8>> {
    let inner = quoted.strip_prefix(&[quote])?.strip_suffix(&[quote])?;
    let mut text = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b'\\' => rest = decode_escape(after, quote, &mut text)?,
            _ if byte == quote || byte < b' ' => return None,
            _ => {
                let end =
                    rest.iter().position(|byte| matches!(*byte, b'\\' | 0..b' ') || *byte == quote);
                let (plain, after) = rest.split_at(end.unwrap_or(rest.len()));
                push_valid(plain, &mut text);
                rest = after;
            }
        }
    }
    Some(text)
}

/// Appends the character of an escape sequence, whose backslash is already taken. Returns the rest
/// after it.
fn decode_escape<'t>(rest: &'t [u8], quote: u8, text: &mut Vec<u8>) -> Option<&'t [u8]> {
    let (&byte, after) = rest.split_first()?;
    let plain = match byte {
        b'u' => return decode_unicode_escape(after, text),
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'\\' | b'/' | b'\'' => byte,
        _ if byte == quote => byte,
        _ => return None,
    };
    text.push(plain);
    Some(after)
}

/// Appends the character of the escape sequence `\uXXXX`, or of a surrogate pair of two, whose `\u`
/// is already taken.
fn decode_unicode_escape<'t>(rest: &'t [u8], text: &mut Vec<u8>) -> Option<&'t [u8]> {
    let (first, after) = hex(rest)?;
    let mut units = vec![first];
    let mut end = after;
    if (0xd800..0xdc00).contains(&first)
        && let Some((second, after)) = after.strip_prefix(b"\\u").and_then(hex)
        && (0xdc00..0xe000).contains(&second)
    {
        units.push(second);
        end = after;
    }
    let char = char::decode_utf16(units).next()?.unwrap_or(char::REPLACEMENT_CHARACTER);
    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    Some(end)
}

/// Takes four hexadecimal digits.
fn hex(rest: &[u8]) -> Option<(u16, &[u8])> {
    let (digits, after) = rest.split_at_checked(4)?;
    let text =
        std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
    Some((u16::from_str_radix(text, 16).ok()?, after))
}

/// Appends bytes. Each byte that is not UTF-8 becomes U+FFFD.
fn push_valid(bytes: &[u8], text: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        text.extend_from_slice(chunk.valid().as_bytes());
        for _ in chunk.invalid() {
            text.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}
