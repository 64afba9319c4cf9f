//! Reads texts of users, with a limit of their size.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The maximum size of a file of manifests or rules, in bytes.
pub(crate) const MAX_FILE_SIZE: u64 = 64 << 20;

/// The directories of open file descriptors. A shell passes a pipe by such a path for `<(command)`.
const DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// Reads a regular file, or standard input for `-`, of at most `max_bytes` bytes in UTF-8. Devices
/// and named pipes are refused, because reading them may never end.
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

fn is_stdin(path: &Path) -> bool {
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
    if size as u64 > max_bytes {
        return Err(io::Error::other(format!("larger than {} MiB", max_bytes >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("stream did not contain valid UTF-8"))
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
