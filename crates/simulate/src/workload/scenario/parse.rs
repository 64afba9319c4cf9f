//! Reads scenarios and the files that they refer to.

use std::{fs, path::Path};

use super::{
    error::ScenarioError,
    spec::{MetricValue, Scenario},
};
use crate::workload::{
    load::Load,
    samples::{MAX_FILE_SIZE, parse_csv},
    seconds::Seconds,
};

impl Scenario {
    /// Parses and validates a scenario. Files that it refers to aren't read: see
    /// [`Scenario::load`].
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario = Self::read(text)?;
        scenario.validate()?;
        Ok(scenario)
    }

    /// Reads and validates a scenario file and the sample files that it refers to.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let mut scenario = Self::read(&read_file(path)?)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        scenario.load_samples(|file| {
            let path = folder.join(file);
            let table = parse_csv(&read_file(&path)?);
            table.map_err(|source| ScenarioError::Samples { path, source })
        })?;
        scenario.validate()?;
        Ok(scenario)
    }

    /// Replaces the points of all loads that are recorded in files. `read` reads one file.
    pub fn load_samples<E>(
        &mut self,
        mut read: impl FnMut(&str) -> Result<Vec<(Seconds, f64)>, E>,
    ) -> Result<(), E> {
        for samples in self.loads_mut().into_iter().flat_map(Load::samples_mut) {
            if let Some(file) = &samples.file {
                samples.points = read(file)?;
            }
        }
        Ok(())
    }

    fn read(text: &str) -> Result<Self, ScenarioError> {
        serde_saphyr::from_str(text).map_err(|error| ScenarioError::Syntax(Box::new(error)))
    }

    fn loads_mut(&mut self) -> Vec<&mut Load> {
        let curve = |value| match value {
            &mut MetricValue::Curve(ref mut load) => Some(load),
            _ => None,
        };
        let workloads = self.workloads.iter_mut().map(|one| &mut one.load);
        let queues = self.queues.iter_mut().map(|one| &mut one.arrivals);
        let objects = self.object_metrics.iter_mut().filter_map(|one| curve(&mut one.value));
        let external = self.external_metrics.iter_mut().filter_map(|one| curve(&mut one.value));
        workloads.chain(queues).chain(objects).chain(external).collect()
    }
}

fn read_file(path: &Path) -> Result<String, ScenarioError> {
    let error = |source| ScenarioError::ReadFile { path: path.to_owned(), source };
    if fs::metadata(path).map_err(error)?.len() > MAX_FILE_SIZE {
        return Err(ScenarioError::FileTooLarge { path: path.to_owned(), limit: MAX_FILE_SIZE });
    }
    fs::read_to_string(path).map_err(error)
}
