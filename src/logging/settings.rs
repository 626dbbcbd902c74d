//! Level and format, changed by a reload while records are written.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::config::spec::{LogFormat, LogLevel, LoggingSpec};

const LEVELS: [LogLevel; 6] =
    [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error, LogLevel::Fatal, LogLevel::Panic];
const FORMATS: [LogFormat; 3] = [LogFormat::Default, LogFormat::Text, LogFormat::Json];

/// Level and format, shared by everything that makes records.
#[derive(Debug)]
pub struct Settings {
    level: AtomicU8,
    format: AtomicU8,
}

impl Settings {
    /// The settings that a configuration asks for.
    pub fn new(level: LogLevel, format: LogFormat) -> Self {
        Self { level: AtomicU8::new(level as u8), format: AtomicU8::new(format as u8) }
    }

    /// Takes over level and format of a configuration.
    pub fn apply(&self, spec: &LoggingSpec) {
        self.level.store(spec.level as u8, Ordering::Relaxed);
        self.format.store(spec.format as u8, Ordering::Relaxed);
    }

    /// How records look now.
    pub fn format(&self) -> LogFormat {
        let index = usize::from(self.format.load(Ordering::Relaxed));
        FORMATS.get(index).copied().unwrap_or(LogFormat::Default)
    }

    /// Whether records of this level are written now. PANIC means the same as FATAL: nothing is more important.
    pub fn admits(&self, level: LogLevel) -> bool {
        let index = usize::from(self.level.load(Ordering::Relaxed));
        let threshold = LEVELS.get(index).copied().unwrap_or(LogLevel::Info);
        level >= threshold.min(LogLevel::Fatal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::LogOutput;

    #[test]
    fn a_level_admits_itself_and_what_is_more_important() {
        for (index, &threshold) in LEVELS.iter().enumerate() {
            let settings = Settings::new(threshold, LogFormat::Default);
            for (other, &level) in LEVELS.iter().enumerate() {
                let expected = other >= index || level == LogLevel::Fatal;
                assert_eq!(settings.admits(level), expected, "{level:?} at {threshold:?}");
            }
        }
    }

    #[test]
    fn a_changed_configuration_is_taken_over() {
        let settings = Settings::new(LogLevel::Info, LogFormat::Default);
        for format in FORMATS {
            settings.apply(&LoggingSpec { level: LogLevel::Error, format, output: LogOutput::Stdout });
            assert_eq!(settings.format(), format);
            assert!(!settings.admits(LogLevel::Warn));
        }
    }
}
