//! Base64, which the fields of type `[]byte` are in.

/// Encodes with the standard alphabet and padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3)
            .fold(0_usize, |word, i| word << 8 | usize::from(chunk.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let letter = char::from(ALPHABET[word >> (18 - 6 * i) & 63]);
            text.push(if i <= chunk.len() { letter } else { '=' });
        }
    }
    text
}
