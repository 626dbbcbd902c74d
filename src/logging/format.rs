//! The three formats of a record. Pure. A `Frame` holds the parts of a record that are the same for all lines of a child;
//! our own records are written by the same code.
//!
//! Written by hand: slog-term and slog-json render every part of every record anew, and their formats are not those of
//! logrus, which ContainerPilot 3 writes.

use super::escape::write_into;
use super::time::TimeText;
use super::{json, logfmt};
use crate::config::spec::{LogFormat, LogLevel};

/// The parts of a record besides its time and message.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Its level.
    pub level: LogLevel,
    /// The job that it is about, or `containerpilot`.
    pub job: &'a str,
    /// The process that it is about, or our own.
    pub pid: u32,
    /// Further values, sorted by key; each key once.
    pub fields: &'a [Field],
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// The name of the value.
    pub key: &'static str,
    /// The value.
    pub value: Value,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// Text, quoted as the format demands.
    Text(String),
    /// A number, a boolean or null: the same in every format, never quoted.
    Literal(String),
}

impl Value {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) | Self::Literal(text) => text.as_bytes(),
        }
    }
}

/// The key before the message of a text record.
const MESSAGE_KEY: &[u8] = b" msg=";

/// The name of a level, as logrus writes it.
pub const fn level_name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warning",
        LogLevel::Error => "error",
        LogLevel::Fatal => "fatal",
        LogLevel::Panic => "panic",
    }
}

/// The bytes around the messages of records, in which only the time changes.
#[derive(Debug, Clone)]
pub struct Frame {
    format: LogFormat,
    /// The bytes between two messages: the end of a record, then the beginning of the next one. As one piece, since copying
    /// two short ones takes almost twice as long.
    between: Vec<u8>,
    /// The length of the end of a record.
    end: usize,
    /// Where the time begins.
    time_at: usize,
}

impl Frame {
    /// The frame of records from `origin`.
    pub fn new(format: LogFormat, origin: &Origin<'_>) -> Self {
        match format {
            LogFormat::Default => Self::plain(origin),
            LogFormat::Text => Self::text(origin),
            LogFormat::Json => Self::json(origin),
        }
    }

    /// Its format.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Sets the time of the records that are written from now on.
    pub fn set_time(&mut self, time: &TimeText) {
        if let Some(place) = self.between.get_mut(self.time_at..).and_then(|part| part.first_chunk_mut()) {
            *place = *time.as_bytes();
        }
    }

    /// Appends one whole record, its newline included.
    pub fn write(&self, message: &[u8], out: &mut Vec<u8>) {
        let mut records = self.records(out);
        records.write(message);
        records.end();
    }

    /// Begins to append records.
    pub fn records<'a>(&'a self, out: &'a mut Vec<u8>) -> Records<'a> {
        out.extend_from_slice(self.beginning());
        Records { frame: self, out }
    }

    fn beginning(&self) -> &[u8] {
        self.between.get(self.end..).unwrap_or_default()
    }

    /// `TIME JOB PID MESSAGE key=value`
    fn plain(origin: &Origin<'_>) -> Self {
        let mut before = TimeText::default().as_bytes().to_vec();
        write_into(&mut before, format_args!(" {} {} ", origin.job, origin.pid));
        let mut after = Vec::new();
        for field in origin.fields {
            write_pair(field.key, field.value.as_bytes(), &mut after);
        }
        after.push(b'\n');
        let end = after.len();
        Self { format: LogFormat::Default, between: [after, before].concat(), end, time_at: end }
    }

    /// `time="TIME" level=LEVEL msg=MESSAGE job=JOB pid=PID key=value`
    fn text(origin: &Origin<'_>) -> Self {
        let mut before = b"time=\"".to_vec();
        let time_at = before.len();
        before.extend_from_slice(TimeText::default().as_bytes());
        write_into(&mut before, format_args!("\" level={}", level_name(origin.level)));
        before.extend_from_slice(MESSAGE_KEY);
        let mut after = Vec::new();
        write_pair("job", origin.job.as_bytes(), &mut after);
        write_into(&mut after, format_args!(" pid={}", origin.pid));
        for field in origin.fields {
            write_pair(without_clash(field.key), field.value.as_bytes(), &mut after);
        }
        after.push(b'\n');
        let end = after.len();
        Self { format: LogFormat::Text, between: [after, before].concat(), end, time_at: end + time_at }
    }

    /// `{"job":"JOB","level":"LEVEL","msg":"MESSAGE","pid":PID,"time":"TIME"}`, fields at their sorted place.
    fn json(origin: &Origin<'_>) -> Self {
        let pid = Value::Literal(origin.pid.to_string());
        let mut members = vec![
            ("job", Member::Text(origin.job)),
            ("level", Member::Text(level_name(origin.level))),
            ("msg", Member::Message),
            ("pid", Member::Value(&pid)),
            ("time", Member::Time),
        ];
        members.extend(
            origin.fields.iter().map(|field| (without_clash(field.key), Member::Value(&field.value))),
        );
        members.sort_by_key(|(key, _)| *key);

        let (mut before, mut after, mut time_at) = (Vec::new(), Vec::new(), 0);
        let mut part = &mut before;
        let mut separator = b'{';
        for (key, member) in members {
            part.push(separator);
            separator = b',';
            json::write_string(key.as_bytes(), part);
            part.push(b':');
            match member {
                Member::Text(text) => json::write_string(text.as_bytes(), part),
                Member::Value(Value::Text(text)) => json::write_string(text.as_bytes(), part),
                Member::Value(Value::Literal(literal)) => part.extend_from_slice(literal.as_bytes()),
                Member::Message => part = &mut after,
                Member::Time => {
                    time_at = part.len() + 1;
                    json::write_string(TimeText::default().as_bytes(), part);
                }
            }
        }
        after.extend_from_slice(b"}\n");
        // The time is sorted behind the message, so it is in the end of a record.
        let end = after.len();
        Self { format: LogFormat::Json, between: [after, before].concat(), end, time_at }
    }
}

/// Appends records to a buffer. The buffer always ends with the beginning of a record, until [`end`](Self::end).
#[derive(Debug)]
pub struct Records<'a> {
    frame: &'a Frame,
    out: &'a mut Vec<u8>,
}

impl Records<'_> {
    /// Appends a message with the end of its record, and the beginning of the next one.
    pub fn write(&mut self, message: &[u8]) {
        match self.frame.format {
            LogFormat::Default => self.out.extend_from_slice(message),
            // logrus leaves an empty message out.
            LogFormat::Text if message.is_empty() => self.out.truncate(self.out.len() - MESSAGE_KEY.len()),
            LogFormat::Text => logfmt::write_value(message, self.out),
            LogFormat::Json => json::write_string(message, self.out),
        }
        self.out.extend_from_slice(&self.frame.between);
    }

    /// Removes the beginning of the record that does not come.
    pub fn end(self) {
        self.out.truncate(self.out.len() - self.frame.beginning().len());
    }
}

/// The value of a key of a JSON record.
enum Member<'a> {
    Text(&'a str),
    Value(&'a Value),
    Message,
    Time,
}

/// A key that does not collide with those of every record; logrus renames them in the same way.
fn without_clash(key: &'static str) -> &'static str {
    match key {
        "time" => "fields.time",
        "level" => "fields.level",
        "msg" => "fields.msg",
        _ => key,
    }
}

fn write_pair(key: &str, value: &[u8], out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    logfmt::write_value(value, out);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const FORMATS: [LogFormat; 3] = [LogFormat::Default, LogFormat::Text, LogFormat::Json];

    fn shown(format: LogFormat, origin: &Origin<'_>, message: impl AsRef<[u8]>) -> String {
        let time = TimeText::new(UNIX_EPOCH + Duration::new(1_794_710_580, 123_456_789));
        let mut out = Vec::new();
        let mut frame = Frame::new(format, origin);
        frame.set_time(&time);
        frame.write(message.as_ref(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn from_app(fields: &[Field]) -> Origin<'_> {
        Origin { level: LogLevel::Info, job: "app", pid: 7, fields }
    }

    fn text(key: &'static str, value: &str) -> Field {
        Field { key, value: Value::Text(value.to_owned()) }
    }

    fn literal(key: &'static str, value: &str) -> Field {
        Field { key, value: Value::Literal(value.to_owned()) }
    }

    #[test]
    fn a_line_of_a_child_looks_as_the_contract_shows_it() {
        let app = from_app(&[]);
        assert_eq!(shown(LogFormat::Default, &app, "hello"), "2026-11-15T02:43:00.123456789Z app 7 hello\n");
        assert_eq!(
            shown(LogFormat::Text, &app, "hello, world"),
            "time=\"2026-11-15T02:43:00.123456789Z\" level=info msg=\"hello, world\" job=app pid=7\n"
        );
        assert_eq!(
            shown(LogFormat::Json, &app, "hello"),
            "{\"job\":\"app\",\"level\":\"info\",\"msg\":\"hello\",\"pid\":7,\
             \"time\":\"2026-11-15T02:43:00.123456789Z\"}\n"
        );
    }

    #[test]
    fn fields_follow_the_message_or_the_job_and_are_sorted_into_json() {
        let fields = [text("code", "exit failed"), literal("restarts", "3"), text("zone", "b")];
        let app = from_app(&fields);
        assert_eq!(
            shown(LogFormat::Default, &app, "over"),
            "2026-11-15T02:43:00.123456789Z app 7 over code=\"exit failed\" restarts=3 zone=b\n"
        );
        assert_eq!(
            shown(LogFormat::Text, &app, "over"),
            "time=\"2026-11-15T02:43:00.123456789Z\" level=info msg=over job=app pid=7 \
             code=\"exit failed\" restarts=3 zone=b\n"
        );
        assert_eq!(
            shown(LogFormat::Json, &app, "over"),
            "{\"code\":\"exit failed\",\"job\":\"app\",\"level\":\"info\",\"msg\":\"over\",\"pid\":7,\
             \"restarts\":3,\"time\":\"2026-11-15T02:43:00.123456789Z\",\"zone\":\"b\"}\n"
        );
    }

    #[test]
    fn fields_named_like_parts_of_every_record_are_renamed() {
        let fields = [text("level", "x"), text("msg", "y"), text("time", "z")];
        let app = from_app(&fields);
        assert!(shown(LogFormat::Text, &app, "m").ends_with(" fields.level=x fields.msg=y fields.time=z\n"));
        let json: serde_json::Value = serde_json::from_str(&shown(LogFormat::Json, &app, "m")).unwrap();
        assert_eq!(json["msg"], "m");
        assert_eq!(json["fields.msg"], "y");
    }

    #[test]
    fn an_empty_message_is_left_out_of_text_only() {
        let app = from_app(&[]);
        assert_eq!(shown(LogFormat::Default, &app, ""), "2026-11-15T02:43:00.123456789Z app 7 \n");
        assert_eq!(
            shown(LogFormat::Text, &app, ""),
            "time=\"2026-11-15T02:43:00.123456789Z\" level=info job=app pid=7\n"
        );
        assert!(shown(LogFormat::Json, &app, "").contains("\"msg\":\"\""));
    }

    #[test]
    fn a_job_name_is_quoted_as_the_format_wants_it() {
        let origin = Origin { job: "my \"app\"", ..from_app(&[]) };
        assert!(shown(LogFormat::Default, &origin, "m").contains(" my \"app\" 7 m"));
        assert!(shown(LogFormat::Text, &origin, "m").contains(" job=\"my \\\"app\\\"\" pid=7"));
        assert!(shown(LogFormat::Json, &origin, "m").contains("{\"job\":\"my \\\"app\\\"\","));
    }

    #[test]
    fn bytes_that_are_not_utf_8_pass_untouched_in_the_default_format_only() {
        let app = from_app(&[]);
        let mut out = Vec::new();
        Frame::new(LogFormat::Default, &app).write(b"a\xff\x00\x1bb", &mut out);
        assert!(out.ends_with(b" app 7 a\xff\x00\x1bb\n"));
        assert!(shown(LogFormat::Text, &app, b"a\xff").contains(r#"msg="a\xff""#));
        assert!(shown(LogFormat::Json, &app, b"a\xff").contains(r#""msg":"a\ufffd""#));
    }

    #[test]
    fn levels_are_named_as_logrus_names_them() {
        let names = [
            (LogLevel::Debug, "debug"),
            (LogLevel::Info, "info"),
            (LogLevel::Warn, "warning"),
            (LogLevel::Error, "error"),
            (LogLevel::Fatal, "fatal"),
            (LogLevel::Panic, "panic"),
        ];
        for (level, name) in names {
            let origin = Origin { level, ..from_app(&[]) };
            assert!(shown(LogFormat::Text, &origin, "m").contains(&format!(" level={name} ")));
        }
    }

    #[test]
    fn every_record_ends_with_one_newline() {
        for format in FORMATS {
            assert_eq!(shown(format, &from_app(&[]), "m").matches('\n').count(), 1);
        }
    }
}
