//! The records of streams of bytes.

use proptest::prelude::*;

use super::*;

const FORMATS: [LogFormat; 3] = [LogFormat::Default, LogFormat::Text, LogFormat::Json];

/// The beginning of each record in the default format at the time of `TimeText::default()`.
const PREFIX: &str = "1970-01-01T00:00:00.000000000Z app 7 ";

fn formatted<'a>(format: LogFormat, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut lines = LineFormatter::new(Label { job: Arc::from("app"), pid: 7, stream: OutputStream::Stdout });
    let (time, mut out) = (TimeText::default(), Vec::new());
    for chunk in chunks {
        lines.feed(chunk, format, &time, &mut out);
    }
    lines.finish(format, &time, &mut out);
    out
}

/// The messages of records in the default format.
fn messages(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
    let out = formatted(LogFormat::Default, chunks.iter().copied());
    let records = out.strip_suffix(b"\n").map(|out| out.split(|&byte| byte == b'\n')).into_iter().flatten();
    records.map(|record| record.strip_prefix(PREFIX.as_bytes()).unwrap().to_vec()).collect()
}

/// The lines of messages, with split lines joined again.
fn joined(messages: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut lines = vec![Vec::new()];
    for message in messages {
        let last = lines.last_mut().unwrap();
        match message.strip_suffix(CONTINUED) {
            Some(piece) if piece.len() > LONGEST - 4 => last.extend_from_slice(piece),
            _ => {
                last.extend_from_slice(&message);
                lines.push(Vec::new());
            }
        }
    }
    assert_eq!(lines.pop(), Some(Vec::new()), "the last piece is not continued");
    lines
}

#[test]
fn each_line_becomes_one_record() {
    assert_eq!(messages(&[b"one\ntwo\n\nfour\n"]), [&b"one"[..], b"two", b"", b"four"]);
    assert!(messages(&[]).is_empty());
    assert!(messages(&[b""]).is_empty());
}

#[test]
fn a_line_may_come_in_any_number_of_chunks() {
    assert_eq!(messages(&[b"o", b"n", b"", b"e\ntw", b"o", b"\n"]), [b"one", b"two"]);
}

#[test]
fn a_last_line_without_a_newline_is_logged() {
    assert_eq!(messages(&[b"one\ntwo"]), [b"one", b"two"]);
}

#[test]
fn one_carriage_return_before_the_newline_belongs_to_the_line_end() {
    assert_eq!(messages(&[b"one\r\ntwo\r\r\n\r\nfour\rfive\r"]), [&b"one"[..], b"two\r", b"", b"four\rfive"]);
    assert_eq!(messages(&[b"one\r", b"\n"]), [b"one"]);
}

#[test]
fn a_line_of_64_kib_is_one_record_and_one_byte_more_makes_two() {
    let longest = "x".repeat(64 * 1024);
    for end in ["", "\n", "\r\n", "\r"] {
        let line = format!("{longest}{end}");
        assert_eq!(messages(&[line.as_bytes()]), [longest.as_bytes()]);
        let line = format!("{longest}y{end}");
        assert_eq!(messages(&[line.as_bytes()]), [format!("{longest} [continued]").as_bytes(), b"y"]);
    }
}

#[test]
fn a_long_line_is_split_and_marked_in_every_format() {
    let line = "z".repeat(200 * 1024);
    for format in FORMATS {
        let out = String::from_utf8(formatted(format, [line.as_bytes()])).unwrap();
        assert_eq!(out.matches('\n').count(), 4);
        assert_eq!(out.matches(" [continued]").count(), 3);
        assert_eq!(out.matches('z').count(), line.len());
    }
}

#[test]
fn a_character_is_not_cut() {
    for before in ["", "x", "xx", "xxx"] {
        let line = format!("{before}{}", "😀".repeat(LONGEST / 2));
        let messages = messages(&[line.as_bytes()]);
        assert!(messages.len() > 1);
        assert!(messages.iter().all(|message| std::str::from_utf8(message).is_ok()));
        assert_eq!(joined(messages), [line.as_bytes()]);
    }
}

#[test]
fn a_long_line_of_broken_utf_8_is_cut_all_the_same() {
    let line = vec![0x80; 3 * LONGEST];
    let messages = messages(&[&line]);
    assert_eq!(messages.len(), 3);
    assert_eq!(joined(messages), [line]);
}

#[test]
fn no_more_than_three_bytes_are_cut_off_for_broken_utf_8() {
    let line = [b"x".repeat(LONGEST - 10), vec![0x80; 20]].concat();
    let (piece, rest) = line.split_at(LONGEST);
    assert_eq!(messages(&[&line]), [[piece, CONTINUED].concat(), rest.to_vec()]);
}

#[test]
fn memory_of_a_long_line_is_given_back() {
    let mut lines = LineFormatter::new(Label { job: Arc::from("app"), pid: 7, stream: OutputStream::Stdout });
    let (time, mut out) = (TimeText::default(), Vec::new());
    for _ in 0..100 {
        lines.feed(&[b'x'; 4096], LogFormat::Default, &time, &mut out);
        assert!(lines.partial.capacity() <= 3 * LONGEST, "a line without end is not kept as a whole");
    }
    lines.feed(b"\n", LogFormat::Default, &time, &mut out);
    assert!(lines.partial.capacity() <= KEPT_CAPACITY);
    lines.feed(b"short", LogFormat::Default, &time, &mut out);
    lines.feed(b"\n", LogFormat::Default, &time, &mut out);
    assert!(lines.partial.capacity() <= KEPT_CAPACITY);
}

#[test]
fn a_new_format_is_used_from_the_next_record_on() {
    let mut lines = LineFormatter::new(Label { job: Arc::from("app"), pid: 7, stream: OutputStream::Stdout });
    let (time, mut out) = (TimeText::default(), Vec::new());
    lines.feed(b"one\ntwo", LogFormat::Default, &time, &mut out);
    lines.feed(b"\n", LogFormat::Text, &time, &mut out);
    let expected =
        format!("{PREFIX}one\ntime=\"1970-01-01T00:00:00.000000000Z\" level=info msg=two job=app pid=7\n");
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// Bytes rich in line ends, broken UTF-8 and, sometimes, lines that must be split.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let run = prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..40),
        4 => Just(b"\n".to_vec()),
        4 => Just(b"\r\n".to_vec()),
        2 => Just("☃é😀".as_bytes().to_vec()),
        1 => (LONGEST - 3..LONGEST + 4).prop_map(|length| vec![b'x'; length]),
        1 => (LONGEST / 3..LONGEST).prop_map(|count| "☃".repeat(count).into_bytes()),
    ];
    proptest::collection::vec(run, 0..12).prop_map(|runs| runs.concat())
}

/// The expected lines.
fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = bytes.split(|&byte| byte == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn messages_hold_all_lines_in_order(bytes in stream()) {
        prop_assert!(joined(messages(&[&bytes])) == lines_of(&bytes));
    }

    #[test]
    fn chunk_boundaries_change_nothing(bytes in stream(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let chunks: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        for format in FORMATS {
            prop_assert!(formatted(format, chunks.iter().copied()) == formatted(format, [&bytes[..]]));
        }
    }

    #[test]
    fn single_bytes_give_what_one_chunk_gives(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(formatted(LogFormat::Json, bytes.chunks(1)), formatted(LogFormat::Json, [&bytes[..]]));
    }
}

#[test]
fn an_incomplete_line_can_be_dropped() {
    let mut lines = LineFormatter::new(Label { job: Arc::from("app"), pid: 7, stream: OutputStream::Stdout });
    let (time, mut out) = (TimeText::default(), Vec::new());
    assert!(!lines.has_partial());
    lines.feed(b"whole\nhalf", LogFormat::Default, &time, &mut out);
    assert!(lines.has_partial());
    lines.discard_partial();
    assert!(!lines.has_partial());
    lines.feed(b" line\n", LogFormat::Default, &time, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), format!("{PREFIX}whole\n{PREFIX} line\n"));
}
