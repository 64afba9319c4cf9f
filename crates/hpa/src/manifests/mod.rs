//! Reads objects from files: YAML streams, JSON, and lists of any kind.

mod stream;
mod text;
mod yaml;

use std::{
    collections::HashSet,
    fmt, fs,
    path::{Path, PathBuf},
    rc::Rc,
};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value;

use self::yaml::Fields;
pub(crate) use self::{
    stream::{Document, split_documents},
    text::{MAX_FILE_SIZE, is_stdin, read_text},
    yaml::{DuplicateKey, Position},
};

/// The extensions of the files that kubectl reads in a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// An object, and the place from which it was read.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) file: String,
    /// The first line of the object's document; 0 for an object of a cluster.
    pub(crate) line: usize,
    pub(crate) object: Value,
    /// The positions of the document's fields, and the keys that occur twice.
    fields: Rc<Fields>,
    /// The path of the object in its document. Empty unless the object is an item of a list.
    path: String,
}

impl Manifest {
    /// An object whose fields all have the position of `line`.
    pub(crate) fn new(file: impl Into<String>, line: usize, object: Value) -> Self {
        let (fields, path) = (Rc::default(), String::new());
        Self { file: file.into(), line, object, fields, path }
    }

    pub(crate) fn kind(&self) -> &str {
        string_at(&self.object, "/kind")
    }

    /// The position of a field or, if it is not in the file, of its closest ancestor.
    pub(crate) fn position(&self, field: &str) -> Position {
        let start = Position { line: self.line, column: 1 };
        self.fields.positions.get(&self.path_in_document(field)).unwrap_or(start)
    }

    /// `FILE:LINE` of a field, or only the file for an object of a cluster.
    pub(crate) fn place(&self, field: &str) -> String {
        match self.position(field).line {
            0 => self.file.clone(),
            line => format!("{}:{line}", self.file),
        }
    }

    fn path_in_document(&self, field: &str) -> String {
        let dot = if self.path.is_empty() || field.is_empty() { "" } else { "." };
        format!("{}{dot}{field}", self.path)
    }

    /// The keys of the object that occur twice, with their paths in the object.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = DuplicateKey> {
        self.fields.duplicates.iter().filter_map(move |duplicate| {
            let field = duplicate.field.strip_prefix(&self.path)?;
            let field = field.strip_prefix('.').unwrap_or(field).to_owned();
            Some(DuplicateKey { field, ..duplicate.clone() })
        })
    }
}

/// The string at a JSON pointer; empty if there is none.
pub(crate) fn string_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list in a JSON document.
pub(crate) fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// An input that can't be read or checked.
#[derive(Debug)]
pub(crate) struct Problem {
    /// The path of a file or directory, `file:line` of a document, the flag that names rules, or
    /// the group of a metrics API.
    pub(crate) place: String,
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Objects of files, and the problems of files and documents that can't be read.
#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads the objects of files, including the items of lists. `-` is standard input. Fails at the
/// first problem.
pub(crate) fn read_files(files: &[PathBuf]) -> anyhow::Result<Vec<Manifest>> {
    let mut input = Input::default();
    for file in files {
        input.add_stream(file, &read_file(file)?);
        if let Some(problem) = input.problems.first() {
            bail!("{problem}");
        }
    }
    Ok(input.manifests)
}

/// Reads the objects of files and directories. Continues after problems. A file that several paths
/// name is read once.
pub(crate) fn read_paths(paths: &[PathBuf], recursive: bool) -> Input {
    let mut input = Input::default();
    let mut known_files = HashSet::new();
    for path in paths {
        let files = files_at(path, recursive).unwrap_or_else(|error| {
            input.add_problem(&path.display().to_string(), &error);
            Vec::new()
        });
        for file in files {
            // Standard input and the pipes of a shell have no canonical path.
            if fs::canonicalize(&file).is_ok_and(|canonical| !known_files.insert(canonical)) {
                continue;
            }
            match read_text(&file, MAX_FILE_SIZE) {
                Ok(stream) => input.add_stream(&file, &stream),
                Err(error) => input.add_problem(&file.display().to_string(), &error.into()),
            }
        }
    }
    input
}

/// The path itself or, if it is a directory, its files. Fails if it has none.
fn files_at(path: &Path, recursive: bool) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let files = files_in(path, recursive)?;
    let extensions = EXTENSIONS.join(", ");
    ensure!(!files.is_empty(), "the directory has no files with the extensions {extensions}");
    Ok(files)
}

/// The files in a directory that kubectl would read, sorted by name.
fn files_in(directory: &Path, recursive: bool) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).context("unable to read the directory")?;
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.path();
        // `file_type` doesn't follow links, so links to directories can't form a cycle.
        if entry.file_type()?.is_dir() {
            if recursive {
                files.extend(files_in(&path, true)?);
            }
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read_file(file: &Path) -> anyhow::Result<String> {
    let text = read_text(file, MAX_FILE_SIZE);
    text.with_context(|| format!("unable to read {}", file_name(file)))
}

/// The name of a file in messages: `standard input` for `-`.
pub(crate) fn file_name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    }
}

/// Parses a stream of YAML or JSON documents. Fails at the first problem.
pub(crate) fn parse(file: &str, stream: &str) -> anyhow::Result<Vec<Manifest>> {
    let input = Input::from_stream(file, stream);
    match input.problems.first() {
        Some(problem) => bail!("{problem}"),
        None => Ok(input.manifests),
    }
}

/// Returns the only error, or one with the number of errors and a line for each.
pub(crate) fn combined_error(errors: &[String]) -> anyhow::Error {
    match errors {
        [only] => anyhow!("{only}"),
        several => anyhow!("{} errors:\n{}", several.len(), several.join("\n")),
    }
}

/// Parses one document. `line` is the number of its first line, for errors.
pub(crate) fn parse_document(text: &str, line: usize) -> anyhow::Result<Value> {
    match yaml::parse(text, line) {
        Ok((value, _)) => Ok(value),
        Err(_) if is_template(text) => bail!("{}", template_message(None)),
        Err(error) => bail!("unable to read YAML: line {}: {}", error.position.line, error.message),
    }
}

impl Input {
    /// The objects and problems of a stream of YAML or JSON documents.
    pub(crate) fn from_stream(file: &str, stream: &str) -> Self {
        let mut input = Self::default();
        input.add_stream(Path::new(file), stream);
        input
    }

    fn add_problem(&mut self, place: &str, error: &anyhow::Error) {
        let (place, message) = (place.to_owned(), format!("{error:#}"));
        self.problems.push(Problem { place, message });
    }

    fn add_stream(&mut self, path: &Path, stream: &str) {
        let file = path.display().to_string();
        let documents = match split_documents(stream) {
            Ok(documents) => documents,
            Err(error) => return self.add_problem(&file, &error),
        };
        let mut is_template_reported = false;
        for document in documents {
            let (line, document) = document.text();
            let parsed = yaml::parse(&document, line);
            let has_template = match &parsed {
                Ok((object, _)) => has_template_action(object),
                Err(_) => is_template(&document),
            };
            if has_template {
                // One problem for all templates of a file.
                if !is_template_reported {
                    is_template_reported = true;
                    let (place, message) = (format!("{file}:{line}"), template_message(Some(path)));
                    self.problems.push(Problem { place, message });
                }
                continue;
            }
            match parsed {
                Ok((object, fields)) => {
                    let fields = Rc::new(fields);
                    let path = String::new();
                    let document = Manifest { file: file.clone(), line, object, fields, path };
                    add_objects(document, &mut self.manifests);
                }
                Err(error) => {
                    let message = format!("unable to read YAML: {}", error.message);
                    let place = format!("{file}:{}", error.position.line);
                    self.problems.push(Problem { place, message });
                }
            }
        }
    }
}

/// Whether an invalid document has actions of a Go or Jinja template.
fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// Whether the name, namespace or spec of an autoscaler has a template action. Annotations don't
/// count, because they may contain templates for other programs.
fn has_template_action(object: &Value) -> bool {
    fn has_action(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains("{{"),
            Value::Array(items) => items.iter().any(has_action),
            Value::Object(members) => members.values().any(has_action),
            _ => false,
        }
    }
    string_at(object, "/kind") == hpa_calc::crd::KIND
        && ["/metadata/name", "/metadata/namespace", "/spec"]
            .iter()
            .any(|pointer| object.pointer(pointer).is_some_and(has_action))
}

/// The message about a template. Names the chart of `file`, if the file is in one.
fn template_message(file: Option<&Path>) -> String {
    let chart = file.and_then(|file| directory_with(file, &["Chart.yaml"]));
    let chart = chart.as_deref().unwrap_or("CHART");
    format!("this is a template: render it first, with helm template {chart}")
}

/// The closest directory above `file` that contains a file with one of these names.
pub(crate) fn directory_with(file: &Path, names: &[&str]) -> Option<String> {
    let mut directories = file.ancestors().skip(1);
    let directory =
        directories.find(|directory| names.iter().any(|name| directory.join(name).is_file()))?;
    let is_current = directory == Path::new("");
    Some(if is_current { ".".to_owned() } else { directory.display().to_string() })
}

/// Adds an object to `manifests`. Instead of a list, adds its items.
fn add_objects(manifest: Manifest, manifests: &mut Vec<Manifest>) {
    let Manifest { file, line, mut object, fields, path } = manifest;
    if object.is_null() {
        return;
    }
    let kind = string_at(&object, "/kind").strip_suffix("List").map(str::to_owned);
    let items = object.get_mut("items").filter(|items| kind.is_some() && items.is_array());
    let (Some(kind), Some(Value::Array(items))) = (kind, items.map(Value::take)) else {
        manifests.push(Manifest { file, line, object, fields, path });
        return;
    };
    let api_version = object.get("apiVersion").cloned().unwrap_or_default();
    for (index, mut item) in items.into_iter().enumerate() {
        // The API server leaves out the kind of the items of a list such as a PodList.
        if let Some(item) = item.as_object_mut().filter(|_| !kind.is_empty()) {
            item.entry("kind").or_insert_with(|| kind.clone().into());
            item.entry("apiVersion").or_insert_with(|| api_version.clone());
        }
        let path = format!("{}[{index}]", hpa_calc::crd::member_path(&path, "items"));
        let (file, fields) = (file.clone(), fields.clone());
        add_objects(Manifest { file, line, object: item, fields, path }, manifests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(stream: &str) -> Input {
        Input::from_stream("f.yaml", stream)
    }

    fn problems(stream: &str) -> Vec<String> {
        input(stream).problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn documents_and_items_are_objects_with_their_lines() {
        let stream = "# a comment\n---\nkind: Pod\n--- # second\nkind: List\nitems:\n- kind: Pod\n\
                      - kind: Service\n---\n---\napiVersion: v1\nkind: PodList\nitems: [{}]\n";
        let manifests = parse("f", stream).expect("manifests");
        let objects: Vec<_> =
            manifests.iter().map(|one| (one.line, one.kind(), one.position("kind").line)).collect();
        assert_eq!(objects, [(3, "Pod", 3), (5, "Pod", 7), (5, "Service", 8), (11, "Pod", 13)]);
    }

    #[test]
    fn invalid_document_is_reported_and_others_are_read() {
        let input = input("kind: Pod\n---\na: 1\nb: [\n---\nkind: Service\n");
        let kinds: Vec<_> = input.manifests.iter().map(Manifest::kind).collect();
        assert_eq!(kinds, ["Pod", "Service"]);
        let [problem] = input.problems.as_slice() else { panic!("{:?}", input.problems) };
        assert!(problem.to_string().starts_with("f.yaml:"), "{problem}");
        assert!(problem.message.starts_with("unable to read YAML: "), "{problem}");
    }

    #[test]
    fn number_of_documents_is_limited() {
        let stream = "---\n".repeat(100_001);
        let expected = "f.yaml: 100001 documents, but a file may have at most 100000";
        assert_eq!(problems(&stream), [expected]);
    }

    #[test]
    fn template_error_names_the_command_that_renders_it() {
        let expected = "this is a template: render it first, with helm template CHART";
        for stream in [
            "{{- if .Values.enabled }}\nkind: HorizontalPodAutoscaler\n{{- end }}\n---\n{{ x }}\n",
            "kind: HorizontalPodAutoscaler\nspec:\n  maxReplicas: {{ .Values.max }}\n",
            "kind: HorizontalPodAutoscaler\nspec:\n  maxReplicas: '{{ .Values.max }}'\n",
        ] {
            assert_eq!(problems(stream), [format!("f.yaml:1: {expected}")]);
        }
        // Prometheus renders the templates in alerts.
        assert!(problems("kind: PrometheusRule\nspec: {x: '{{ $labels.pod }}'}\n").is_empty());
    }

    #[test]
    fn template_error_names_the_directory_of_the_chart() {
        let chart = tempfile::tempdir().unwrap();
        let templates = chart.path().join("templates");
        fs::create_dir(&templates).unwrap();
        fs::write(chart.path().join("Chart.yaml"), "name: web\n").unwrap();
        fs::write(templates.join("hpa.yaml"), "name: {{ .Values.name }}\n").unwrap();
        let input = read_paths(&[templates], false);
        let command = format!("helm template {}", chart.path().display());
        assert!(input.problems[0].message.ends_with(&command), "{}", input.problems[0]);
    }

    #[test]
    fn directories_are_read_as_kubectl_reads_them() {
        let directory = tempfile::tempdir().unwrap();
        let nested = directory.path().join("nested");
        fs::create_dir(&nested).unwrap();
        for (file, kind) in [("b.yaml", "B"), ("a.yml", "A"), ("c.json", "C"), ("d.txt", "D")] {
            let text = format!("{{\"kind\": \"{kind}\"}}");
            fs::write(directory.path().join(file), &text).unwrap();
            fs::write(nested.join(file), text.replace(kind, &format!("Nested{kind}"))).unwrap();
        }
        let kinds = |recursive| {
            let input = read_paths(&[directory.path().to_owned()], recursive);
            assert!(input.problems.is_empty(), "{:?}", input.problems);
            input.manifests.iter().map(|one| one.kind().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(false), ["A", "B", "C"]);
        assert_eq!(kinds(true), ["A", "B", "C", "NestedA", "NestedB", "NestedC"]);
    }

    #[test]
    fn file_that_several_paths_name_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.yaml");
        fs::write(&file, "kind: Pod\n").unwrap();
        let other_path = directory.path().join(".").join("a.yaml");
        let paths = [file.clone(), directory.path().to_owned(), other_path, file];
        let input = read_paths(&paths, false);
        assert!(input.problems.is_empty(), "{:?}", input.problems);
        assert_eq!(input.manifests.len(), 1);
    }

    #[test]
    fn unreadable_file_is_reported_and_others_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let (good, missing) = (directory.path().join("good.yaml"), directory.path().join("no"));
        fs::write(&good, "kind: Pod\n").unwrap();
        let input = read_paths(&[missing.clone(), good.clone()], false);
        assert_eq!(input.manifests.len(), 1);
        assert!(input.problems[0].message.contains("No such file"), "{}", input.problems[0]);
        assert!(read_files(&[good, missing]).is_err());
    }
}
