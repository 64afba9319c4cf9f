//! Edits of JSON.

use Kind::{
    AddMember, AddSpace, AddUnknown, Append, CopyNode, Escape, InsertByte, Remove, RemoveByte,
    Rename, RepeatElement, RepeatMember, Replace, Rotate, SetByte, Truncate, Wrap,
};

use super::{
    tree::{Tree, escape, quote},
    values::{BYTES, NAMES, VALUES},
};

/// The kind of an edit. The kinds before [`AddSpace`] edit a node of the tree, `AddSpace` the whole
/// tree, and the others the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Replaces the node by a value.
    Replace,
    /// Replaces the node by another node of the sample.
    CopyNode,
    /// Adds a member with a name that occurs in the sample.
    AddMember,
    /// Repeats a member with another value, directly before or after it.
    RepeatMember,
    /// Adds a member with a name that no decoder reads.
    AddUnknown,
    /// Changes the name of a member.
    Rename,
    /// Removes a member or an element.
    Remove,
    RepeatElement,
    /// Rotates members or elements.
    Rotate,
    /// Puts the node in a list or an object.
    Wrap,
    /// Escapes all characters of a string or of the names of an object.
    Escape,
    /// Adds white space between the tokens.
    AddSpace,
    Truncate,
    SetByte,
    InsertByte,
    RemoveByte,
    /// Adds text after the document.
    Append,
}

const TREE_KINDS: [Kind; 12] = [
    Replace,
    CopyNode,
    AddMember,
    RepeatMember,
    AddUnknown,
    Rename,
    Remove,
    RepeatElement,
    Rotate,
    Wrap,
    Escape,
    AddSpace,
];
const TEXT_KINDS: [Kind; 5] = [Truncate, SetByte, InsertByte, RemoveByte, Append];

/// An edit. All numbers are valid: they are reduced modulo the choices of the sample.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    kind: Kind,
    /// The index of the node, or of the byte.
    at: usize,
    /// Selects one of the possible edits of this kind there, such as the new value.
    choice: usize,
}

impl Edit {
    /// An edit for any three numbers. Three of four `kind`s change the tree, because edits of the
    /// text mostly break the syntax.
    pub fn new(kind: u8, at: u16, choice: u16) -> Self {
        let (group, kind) = (kind % 4, usize::from(kind / 4));
        let kind = match group {
            0 => TEXT_KINDS[kind % TEXT_KINDS.len()],
            _ => TREE_KINDS[kind % TREE_KINDS.len()],
        };
        Self { kind, at: at.into(), choice: choice.into() }
    }

    /// The number of possible edits of this kind at this node. 0 for edits of the text.
    fn choices(self, tree: &mut Tree, names: &[String]) -> usize {
        let nodes = tree.node_count();
        let node = tree.node(self.at);
        let of_children = |count| if node.child_count() > 0 { count } else { 0 };
        let of_object = |count| if matches!(node, Tree::Object(_)) { count } else { 0 };
        match self.kind {
            Replace => VALUES.len(),
            CopyNode => nodes,
            AddMember => of_object(names.len() * VALUES.len()),
            RepeatMember => of_children(of_object(2 * node.child_count() * VALUES.len())),
            AddUnknown => of_object(VALUES.len()),
            Rename => of_children(of_object(node.child_count() * (NAMES.len() + 2))),
            Remove | RepeatElement | Rotate => node.child_count(),
            Wrap => 2,
            Escape | AddSpace => 1,
            Truncate | SetByte | InsertByte | RemoveByte | Append => 0,
        }
    }

    fn apply(self, tree: &mut Tree, names: &[String]) {
        let nodes = tree.node_count();
        let at = self.at % nodes;
        if self.kind == CopyNode {
            *tree.node(at) = tree.node(self.choice % nodes).clone();
            return;
        }
        match (self.kind, tree.node(at)) {
            (Replace, node) => *node = self.new_leaf(),
            (Wrap, node) if self.choice.is_multiple_of(2) => *node = Tree::List(vec![node.clone()]),
            (Wrap, node) => *node = Tree::Object(vec![("\"x\"".to_owned(), node.clone())]),
            (Escape, Tree::Leaf(text)) => *text = escape(text),
            (_, Tree::Leaf(_)) => {}
            (Escape, Tree::Object(members)) => {
                for (name, _) in members {
                    *name = escape(name);
                }
            }
            (_, Tree::Object(members)) => self.edit_object(members, names),
            (_, Tree::List(elements)) => self.edit_list(elements),
        }
    }

    fn new_leaf(self) -> Tree {
        Tree::Leaf(VALUES[self.choice % VALUES.len()].clone())
    }

    fn edit_object(self, members: &mut Vec<(String, Tree)>, names: &[String]) {
        let values = VALUES.len();
        match self.kind {
            AddMember if !names.is_empty() => {
                let name = names[self.choice / values % names.len()].clone();
                members.push((name, self.new_leaf()));
            }
            AddUnknown => members.insert(0, ("\"x\"".to_owned(), self.new_leaf())),
            _ if members.is_empty() => {}
            RepeatMember => {
                let member = self.choice / values % (2 * members.len());
                let (at, offset) = (member / 2, member % 2);
                let name = members[at].0.clone();
                members.insert(at + offset, (name, self.new_leaf()));
            }
            Rename => {
                let (at, to) = (self.choice % members.len(), self.choice / members.len());
                let name = &mut members[at].0;
                *name = match to % (NAMES.len() + 2) {
                    0 => quote(&name.trim_matches('"').to_ascii_uppercase()),
                    1 => quote(&capitalize(name.trim_matches('"'))),
                    to => NAMES[to - 2].to_owned(),
                };
            }
            Remove => _ = members.remove(self.choice % members.len()),
            Rotate => {
                let by = self.choice % members.len();
                members.rotate_left(by);
            }
            _ => {}
        }
    }

    fn edit_list(self, elements: &mut Vec<Tree>) {
        if elements.is_empty() {
            return;
        }
        let at = self.choice % elements.len();
        match self.kind {
            Remove => _ = elements.remove(at),
            RepeatElement => elements.insert(at, elements[at].clone()),
            Rotate => elements.rotate_left(at),
            _ => {}
        }
    }

    fn apply_to_text(self, text: &mut Vec<u8>) {
        let at = self.at % text.len().max(1);
        let byte = BYTES[self.choice % BYTES.len()];
        match self.kind {
            Truncate => text.truncate(at),
            SetByte if !text.is_empty() => text[at] = byte,
            InsertByte => text.insert(at, byte),
            RemoveByte if !text.is_empty() => _ = text.remove(at),
            Append => text.extend(VALUES[self.choice % VALUES.len()].bytes()),
            _ => {}
        }
    }
}

fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + characters.as_str()
    })
}

/// A JSON text that can be edited.
pub struct Sample {
    tree: Tree,
    names: Vec<String>,
    byte_count: usize,
}

impl Sample {
    pub fn new(json: &str) -> Self {
        let tree = Tree::parse(json);
        let names = tree.names();
        Self { tree, names, byte_count: json.len() }
    }

    /// Edits the sample, first its tree and then its text.
    pub fn edit(&self, edits: &[Edit]) -> Vec<u8> {
        let mut tree = self.tree.clone();
        let (of_tree, of_text): (Vec<&Edit>, Vec<&Edit>) =
            edits.iter().partition(|edit| TREE_KINDS.contains(&edit.kind));
        for edit in &of_tree {
            edit.apply(&mut tree, &self.names);
        }
        let has_space = of_tree.iter().any(|edit| edit.kind == AddSpace);
        let mut text = String::new();
        tree.write(&mut text, if has_space { " \n\t\r" } else { "" });
        let mut text = text.into_bytes();
        for edit in of_text {
            edit.apply_to_text(&mut text);
        }
        text
    }

    /// Edits of each kind at each place. Of the kinds with very many possible edits, some are left
    /// out.
    pub fn single_edits(&self) -> Vec<Edit> {
        let mut tree = self.tree.clone();
        let nodes = tree.node_count();
        let mut edits = Vec::new();
        for kind in TREE_KINDS {
            // Takes every 13th edit of these kinds, to save time.
            let step = if matches!(kind, AddMember | RepeatMember | CopyNode) { 13 } else { 1 };
            for at in 0..nodes {
                let choices = Edit { kind, at, choice: 0 }.choices(&mut tree, &self.names);
                edits.extend((0..choices).step_by(step).map(|choice| Edit { kind, at, choice }));
            }
        }
        for kind in TEXT_KINDS {
            edits.extend((0..self.byte_count).map(|at| Edit { kind, at, choice: at }));
        }
        edits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_change_the_sample_as_described() {
        let sample = Sample::new(r#"{"a":[1,"b"],"c":null}"#);
        let edited = |kind, at, choice| {
            String::from_utf8(sample.edit(&[Edit { kind, at, choice }])).expect("UTF-8")
        };
        assert_eq!(edited(Replace, 2, 0), r#"{"a":[null,"b"],"c":null}"#);
        assert_eq!(edited(CopyNode, 4, 1), r#"{"a":[1,"b"],"c":[1,"b"]}"#);
        assert_eq!(edited(RepeatMember, 0, 1), r#"{"a":true,"a":[1,"b"],"c":null}"#);
        assert_eq!(edited(Rename, 0, 0), r#"{"A":[1,"b"],"c":null}"#);
        assert_eq!(edited(Remove, 0, 0), r#"{"c":null}"#);
        assert_eq!(edited(Rotate, 1, 1), r#"{"a":["b",1],"c":null}"#);
        assert_eq!(edited(Escape, 3, 0), r#"{"a":[1,"\u0062"],"c":null}"#);
        assert_eq!(edited(Truncate, 5, 0), r#"{"a":"#);
    }
}
