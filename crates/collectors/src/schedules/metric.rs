//! Computes the value of a schedule.

use jiff::{
    SignedDuration, Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

use crate::schedules::{
    Compat, EntryProblem, ScalingScheduleSpec, ScheduleError, Window, entry::Entry, zone,
};

/// The maximum number of entries of a schedule. Each evaluation needs the windows of all entries:
/// those of a thousand take a few milliseconds.
pub const MAX_ENTRIES: usize = 1000;

/// The operator's settings for all schedules.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Duration of the ramps of a spec that doesn't set it. A negative one counts as 0.
    pub default_ramp_duration: SignedDuration,
    /// Time zone of repeating entries that name none or an unknown one.
    pub default_time_zone: String,
    /// Number of steps of a ramp.
    pub ramp_steps: u32,
    pub time_zones: TimeZoneDatabase,
    /// With compatibility, repeating entries apply only within their day. Otherwise, windows and
    /// ramps continue across midnight.
    pub compat: Compat,
}

impl Default for Settings {
    /// The defaults of the flags of kube-metrics-adapter.
    fn default() -> Self {
        Self {
            default_ramp_duration: SignedDuration::from_mins(10),
            default_time_zone: "Europe/Berlin".to_owned(),
            ramp_steps: 10,
            time_zones: jiff::tz::db().clone(),
            compat: Compat::Off,
        }
    }
}

/// A compiled schedule.
#[derive(Clone, Debug)]
pub struct ScheduledMetric {
    pub(crate) entries: Vec<Entry>,
    pub(crate) ramp: Ramp,
    compat: Compat,
    problems: Vec<EntryProblem>,
}

/// The ramps before and after windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ramp {
    pub(crate) duration: SignedDuration,
    pub(crate) steps: u32,
}

impl ScheduledMetric {
    /// Compiles a spec. Fails if it has more than [`MAX_ENTRIES`] entries. Invalid entries are not
    /// an error here: see [`Self::problems`] and [`Self::value_at`].
    pub fn new(spec: &ScalingScheduleSpec, settings: &Settings) -> Result<Self, ScheduleError> {
        if spec.schedules.len() > MAX_ENTRIES {
            return Err(ScheduleError::TooManyEntries(spec.schedules.len()));
        }
        let duration = match spec.scaling_window_duration_minutes {
            Some(minutes) if minutes < 0 => {
                return Err(ScheduleError::NegativeScalingWindow(minutes));
            }
            // Limited to about 1900 years, so that the number of seconds can't overflow.
            Some(minutes) => SignedDuration::from_mins(minutes.min(1_000_000_000)),
            None => settings.default_ramp_duration.max(SignedDuration::ZERO),
        };
        let default_zone = &settings.default_time_zone;
        let default_zone = zone::find(&settings.time_zones, default_zone)
            .ok_or_else(|| ScheduleError::UnknownDefaultTimeZone(default_zone.clone()))?;
        let mut problems = Vec::new();
        let entries = spec.schedules.iter().enumerate().map(|(index, schedule)| {
            Entry::new(index, schedule, &default_zone, settings, &mut problems)
        });
        let entries = entries.collect();
        let ramp = Ramp { duration, steps: settings.ramp_steps };
        Ok(Self { entries, ramp, compat: settings.compat, problems })
    }

    /// The problems of all entries.
    pub fn problems(&self) -> &[EntryProblem] {
        &self.problems
    }

    /// Drops the list of [`Self::problems`], whose texts quote the spec. The values and the errors
    /// stay the same.
    pub(crate) fn without_problems(self) -> Self {
        Self { problems: Vec::new(), ..self }
    }

    /// The size of the compiled entries in bytes, without the texts in their errors.
    pub(crate) fn entries_size(&self) -> usize {
        // The days of an entry have a heap allocation of their own.
        self.entries.len() * (size_of::<Entry>() + 32)
    }

    pub fn ramp_duration(&self) -> SignedDuration {
        self.ramp.duration
    }

    /// The start of the ramp before a window, and the end of the ramp after it. With compatibility,
    /// these are within the window's day.
    pub fn extent(&self, window: &Window) -> (Timestamp, Timestamp) {
        self.ramp.extent(window)
    }

    /// The time zone of the first repeating entry.
    pub fn time_zone(&self) -> Option<&TimeZone> {
        self.entries.iter().find_map(Entry::time_zone)
    }

    /// The value at a time. Fails if an entry is invalid. As in kube-metrics-adapter, a repeating
    /// entry with invalid times is an error only on its days.
    pub fn value_at(&self, now: Timestamp) -> Result<i64, ScheduleError> {
        self.validate_at(now)?;
        Ok(self.valid_value_at(now))
    }

    /// The value at a time. Invalid entries are left out.
    pub fn valid_value_at(&self, now: Timestamp) -> i64 {
        self.value_in(&self.effective_windows(now, now), now)
    }

    /// The windows near the period between two times, in the order of the entries. They include all
    /// windows whose value or ramps can affect the value in this period.
    pub fn windows(&self, from: Timestamp, to: Timestamp) -> Vec<Window> {
        let entries = self.entries.iter();
        entries.flat_map(|entry| entry.windows(from, to, self.compat)).collect()
    }

    /// The windows that determine the value between two times.
    pub(crate) fn effective_windows(&self, from: Timestamp, to: Timestamp) -> Vec<Window> {
        let entries = self.entries.iter();
        entries.flat_map(|entry| entry.effective_windows(from, to, self.compat)).collect()
    }

    pub(crate) fn validate_at(&self, now: Timestamp) -> Result<(), ScheduleError> {
        Ok(self.entries.iter().try_for_each(|entry| entry.validate_at(now))?)
    }

    /// The value at `now`, at least 0. `windows` must contain all windows that can affect it.
    pub(crate) fn value_in(&self, windows: &[Window], now: Timestamp) -> i64 {
        windows.iter().map(|window| self.ramp.value(window, now)).fold(0, Ord::max)
    }
}

impl Ramp {
    /// The period in which a window contributes to the value, including its ramps. With
    /// compatibility, it is limited to the window's day, and may be empty.
    pub(crate) fn extent(self, window: &Window) -> (Timestamp, Timestamp) {
        let (rise, fall) = self.unlimited_extent(window);
        match window.day {
            Some((start, end)) => (rise.clamp(start, end), fall.clamp(start, end)),
            None => (rise, fall),
        }
    }

    /// The start of the ramp before a window, and the end of the ramp after it. They aren't limited
    /// to the window's day.
    fn unlimited_extent(self, window: &Window) -> (Timestamp, Timestamp) {
        let rise = window.start.saturating_sub(self.duration).unwrap_or(Timestamp::MIN);
        let fall = window.end.saturating_add(self.duration).unwrap_or(Timestamp::MAX);
        (rise, fall)
    }

    /// The value that a window contributes.
    pub(crate) fn value(self, window: &Window, now: Timestamp) -> i64 {
        let (first, end) = self.extent(window);
        if now < first || end <= now {
            return 0;
        }
        let (rise, fall) = self.unlimited_extent(window);
        if now < window.start {
            self.step_value(now.duration_since(rise), window.value)
        } else if now < window.end {
            window.value
        } else {
            self.step_value(fall.duration_since(now), window.value)
        }
    }

    /// The part of a value that a ramp has reached. The order of operations is that of
    /// kube-metrics-adapter, because it determines the rounding.
    fn step_value(self, elapsed: SignedDuration, value: i64) -> i64 {
        let steps = f64::from(self.steps);
        let fraction = elapsed.as_nanos() as f64 / self.duration.as_nanos() as f64;
        let part = (fraction * steps).floor() * (value as f64 / steps);
        #[expect(clippy::cast_possible_truncation, reason = "a part of the value")]
        let part = part as i64;
        part
    }
}
