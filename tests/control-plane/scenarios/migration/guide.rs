//! The commands of docs/migration.md, by section.

use anyhow::{Result, ensure};

const TEXT: &str = include_str!("../../../../docs/migration.md");

/// The purpose of a code block. In the guide, a bold word precedes checks and rollbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Steps,
    Check,
    Back,
}

/// A code block of the guide.
struct Block {
    section: &'static str,
    part: Part,
    /// Commands, each with its continued lines joined.
    commands: Vec<String>,
    has_run: bool,
}

pub(super) struct Guide {
    blocks: Vec<Block>,
}

impl Guide {
    pub(super) fn parse() -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        let (mut section, mut part, mut in_block) = ("", Part::Steps, false);
        for line in TEXT.lines() {
            match line {
                "```sh" => {
                    in_block = true;
                    blocks.push(Block { section, part, commands: Vec::new(), has_run: false });
                }
                "```" => in_block = false,
                line if in_block => {
                    if let Some(block) = blocks.last_mut() {
                        block.add(line);
                    }
                }
                line => {
                    if let Some(heading) = line.strip_prefix("### ") {
                        (section, part) = (heading, Part::Steps);
                    } else if line.starts_with("**Check.**") {
                        part = Part::Check;
                    } else if line.starts_with("**Back.**") {
                        part = Part::Back;
                    }
                }
            }
        }
        Self { blocks }
    }

    /// The commands of a part of a section, in order.
    pub(super) fn commands(&mut self, section: &str, part: Part) -> Result<Vec<String>> {
        let mut commands = Vec::new();
        for block in &mut self.blocks {
            if block.section == section && block.part == part {
                block.has_run = true;
                commands.extend(block.commands.iter().cloned());
            }
        }
        ensure!(!commands.is_empty(), "docs/migration.md has no {part:?} in {section:?}");
        Ok(commands)
    }

    /// Fails if a code block was not run.
    pub(super) fn check_complete(&self) -> Result<()> {
        let forgotten = self.blocks.iter().find(|block| !block.has_run);
        let forgotten = forgotten.map(|block| (block.section, block.part, &block.commands));
        ensure!(forgotten.is_none(), "the scenario doesn't run {forgotten:?}");
        Ok(())
    }
}

impl Block {
    fn add(&mut self, line: &str) {
        match self.commands.last_mut().filter(|command| command.ends_with('\\')) {
            Some(command) => {
                command.pop();
                command.push_str(line.trim_start());
            }
            None => self.commands.push(line.to_owned()),
        }
    }
}

/// Fails if the guide doesn't mention the command within a sentence.
pub(super) fn check_mentioned(command: &str) -> Result<()> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted = format!("`{command}`");
    ensure!(words(TEXT).contains(&quoted), "docs/migration.md doesn't mention {quoted}");
    Ok(())
}
