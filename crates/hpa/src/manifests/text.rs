//! Reads text files and standard input, up to a maximum size.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The maximum size of a file of manifests or rules, in bytes.
pub(crate) const MAX_FILE_SIZE: u64 = 64 << 20;

/// The directories of open file descriptors. A shell passes a pipe by such a path for `<(command)`.
const DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// Reads at most `max_bytes` bytes of a regular file, of standard input (`-`), or of a pipe that a
/// shell passes for `<(command)`. The text is in UTF-8 or, as kubectl allows, in UTF-16 with a byte
/// order mark. Devices and named pipes are refused, because reading them may never end.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    if is_stdin(path) {
        return read_limited(io::stdin().lock(), max_bytes);
    }
    let kind = fs::metadata(path)?.file_type();
    let is_pipe_of_shell = || {
        let directory = path.parent().unwrap_or(path);
        is_pipe(kind) && DESCRIPTORS.iter().any(|one| directory == Path::new(one))
    };
    if !kind.is_file() && !is_pipe_of_shell() {
        let problem = if kind.is_dir() { "is a directory" } else { "is not a regular file" };
        return Err(io::Error::other(problem));
    }
    read_limited(File::open(path)?, max_bytes)
}

/// Whether a path stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdin")
}

#[cfg(unix)]
fn is_pipe(kind: fs::FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&kind)
}

#[cfg(not(unix))]
fn is_pipe(_: fs::FileType) -> bool {
    false
}

fn read_limited(input: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let size = input.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    let too_large = || io::Error::other(format!("larger than {} MiB", max_bytes >> 20));
    if size as u64 > max_bytes {
        return Err(too_large());
    }
    let text = decode(bytes).map_err(io::Error::other)?;
    // Text in UTF-16 may be longer in UTF-8.
    if text.len() as u64 > max_bytes { Err(too_large()) } else { Ok(text) }
}

/// Decodes UTF-8, or UTF-16 without its byte order mark.
fn decode(bytes: Vec<u8>) -> Result<String, &'static str> {
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => decode_utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => decode_utf16(rest, u16::from_be_bytes),
        _ => String::from_utf8(bytes).map_err(|_| "stream did not contain valid UTF-8"),
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, &'static str> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text: Result<String, _> = char::decode_utf16(pairs.iter().copied().map(unit)).collect();
    text.ok().filter(|_| rest.is_empty()).ok_or("stream did not contain valid UTF-16")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_limited_also_if_the_input_never_ends() {
        let error = read_limited(io::repeat(b'a'), 1 << 20).unwrap_err().to_string();
        assert_eq!(error, "larger than 1 MiB");
        assert_eq!(read_limited(&b"12345"[..], 5).unwrap(), "12345");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "a".repeat((1 << 20) + 1)).unwrap();
        assert_eq!(read_text(file.path(), 1 << 20).unwrap_err().to_string(), "larger than 1 MiB");
        assert_eq!(read_text(file.path(), 2 << 20).unwrap().len(), (1 << 20) + 1);
    }

    #[test]
    fn utf_16_with_a_byte_order_mark_is_decoded() {
        let text = "name: \u{e9}\u{1f600}\n";
        let marked = format!("\u{feff}{text}");
        let encode = |to_bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            marked.encode_utf16().flat_map(to_bytes).collect()
        };
        for bytes in [encode(u16::to_le_bytes), encode(u16::to_be_bytes)] {
            assert_eq!(read_limited(&bytes[..], 1 << 20).unwrap(), text);
            let half = &bytes[..bytes.len() - 1];
            let error = read_limited(half, 1 << 20).unwrap_err().to_string();
            assert_eq!(error, "stream did not contain valid UTF-16");
        }
        // Two bytes in UTF-16, three in UTF-8.
        let wide: Vec<u8> = "\u{feff}\u{20ac}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(read_limited(&wide[..], 4).is_ok());
        let wide = [&wide[..], &wide[2..], &wide[2..], &wide[2..]].concat();
        assert!(read_limited(&wide[..], 10).is_err(), "12 bytes in UTF-8");
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link.yaml");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, problem) in [
            (link.as_path(), "is not a regular file"),
            (Path::new("/dev/zero"), "is not a regular file"),
            (directory.path(), "is a directory"),
        ] {
            assert_eq!(read_text(path, 1 << 20).unwrap_err().to_string(), problem);
        }
    }

    /// The shell passes a pipe like this for `hpa lint <(helm template ...)`.
    #[cfg(target_os = "linux")]
    #[test]
    fn only_pipes_of_the_shell_are_read() {
        use std::{io::Write as _, os::fd::AsRawFd as _};

        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"kind: Pod\n").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read_text(Path::new(&path), 1 << 20).unwrap(), "kind: Pod\n");
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("pipe.yaml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = read_text(&link, 1 << 20).unwrap_err().to_string();
        assert_eq!(error, "is not a regular file");
    }
}
