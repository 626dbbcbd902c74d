//! Level and format, changed by a reload while records are written.

use std::sync::{PoisonError, RwLock};

use crate::config::spec::{LogFormat, LogLevel, LoggingSpec};

/// Level and format, shared with the thread that writes the log.
#[derive(Debug)]
pub struct Settings(RwLock<(LogLevel, LogFormat)>);

impl Settings {
    /// The settings that a configuration asks for.
    pub fn new(level: LogLevel, format: LogFormat) -> Self {
        Self(RwLock::new((level, format)))
    }

    /// Takes over level and format of a configuration.
    pub fn apply(&self, spec: &LoggingSpec) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = (spec.level, spec.format);
    }

    /// The format of records now.
    pub fn format(&self) -> LogFormat {
        self.0.read().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Whether records of this level are written now. PANIC means the same as FATAL: nothing is more important.
    pub fn admits(&self, level: LogLevel) -> bool {
        level >= self.0.read().unwrap_or_else(PoisonError::into_inner).0.min(LogLevel::Fatal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [LogLevel; 6] =
        [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error, LogLevel::Fatal, LogLevel::Panic];

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
        for format in [LogFormat::Default, LogFormat::Text, LogFormat::Json] {
            settings.apply(&LoggingSpec { level: LogLevel::Error, format, ..LoggingSpec::default() });
            assert_eq!(settings.format(), format);
            assert!(!settings.admits(LogLevel::Warn));
        }
    }
}
