//! Kept output, without processes.

use super::*;
use crate::config::spec::LogLevel;

/// A process of a job.
struct Process {
    kept: KeptOutput,
    job: Arc<str>,
    keep: Keep,
    pid: u32,
}

impl Process {
    fn add(&self, records: &[u8]) {
        self.kept.add(&self.job, self.pid, self.keep, records);
    }
}

fn process(kept: &KeptOutput, job: &str, keep: Option<u32>, pid: u32) -> Process {
    let keep = keep.map_or(Keep::Default, Keep::Bytes);
    Process { kept: kept.clone(), job: job.into(), keep, pid }
}

fn wanted(jobs: &[&str], lines: usize) -> Wanted {
    Wanted { jobs: jobs.iter().map(|job| (*job).to_owned()).collect(), lines, since: None, follow: false }
}

fn text(kept: &KeptOutput, wanted: Wanted) -> String {
    let mut cursor = kept.find(wanted);
    rest(kept, &mut cursor)
}

fn rest(kept: &KeptOutput, cursor: &mut Cursor) -> String {
    let mut text = Vec::new();
    loop {
        let more = kept.read(cursor, 10);
        if more.is_empty() {
            return String::from_utf8(text).unwrap();
        }
        text.extend(more);
    }
}

#[test]
fn output_of_several_jobs_is_read_in_the_order_of_the_log() {
    let kept = KeptOutput::default();
    let (a, b) = (process(&kept, "a", None, 1), process(&kept, "b", None, 2));
    a.add(b"a1\na2\n");
    b.add(b"b1\n");
    a.add(b"a3\n");
    b.add(b"b2\n");
    assert_eq!(text(&kept, wanted(&[], 100)), "a1\na2\nb1\na3\nb2\n");
    assert_eq!(text(&kept, wanted(&["a"], 100)), "a1\na2\na3\n");
    assert_eq!(text(&kept, wanted(&["b", "a"], 100)), "a1\na2\nb1\na3\nb2\n");
    assert_eq!(text(&kept, wanted(&["c"], 100)), "");
}

#[test]
fn only_the_last_lines_are_read_of_all_jobs_together() {
    let kept = KeptOutput::default();
    let (a, b) = (process(&kept, "a", None, 1), process(&kept, "b", None, 2));
    a.add(b"a1\na2\na3\n");
    b.add(b"b1\n");
    for (lines, expected) in
        [(0, ""), (1, "b1\n"), (2, "a3\nb1\n"), (3, "a2\na3\nb1\n"), (9, "a1\na2\na3\nb1\n")]
    {
        assert_eq!(text(&kept, wanted(&[], lines)), expected);
    }
    assert!(kept.find(wanted(&[], 0)).is_at_end());
    assert!(!kept.find(wanted(&[], 1)).is_at_end());
}

#[test]
fn a_read_ends_after_the_output_that_reaches_its_limit() {
    let kept = KeptOutput::default();
    let a = process(&kept, "a", None, 1);
    for number in 1..=4 {
        a.add(format!("a{number}\n").as_bytes());
    }
    let mut cursor = kept.find(wanted(&[], 9));
    for (limit, expected) in [(4, "a1\na2\n"), (3, "a3\n"), (100, "a4\n"), (100, "")] {
        assert_eq!(kept.read(&mut cursor, limit), expected.as_bytes(), "{limit}");
    }
}

#[test]
fn nothing_older_than_asked_for_is_read() {
    let kept = KeptOutput::default();
    process(&kept, "a", None, 1).add(b"a1\n");
    let hour = std::time::Duration::from_secs(3600);
    let since = |since| Wanted { since: Some(since), ..wanted(&[], 9) };
    assert_eq!(text(&kept, since(SystemTime::now() - hour)), "a1\n");
    assert_eq!(text(&kept, since(SystemTime::now() + hour)), "");
}

#[test]
fn a_follower_gets_what_comes_later_and_another_reader_does_not() {
    let kept = KeptOutput::default();
    let a = process(&kept, "a", None, 1);
    a.add(b"a1\n");
    let mut follower = kept.find(Wanted { follow: true, ..wanted(&["a"], 9) });
    let mut reader = kept.find(wanted(&["a"], 9));
    a.add(b"a2\n");
    assert_eq!(rest(&kept, &mut reader), "a1\n");
    assert!(reader.is_at_end() && !follower.is_at_end());
    assert_eq!(rest(&kept, &mut follower), "a1\na2\n");
    process(&kept, "b", None, 2).add(b"b1\n");
    assert_eq!(rest(&kept, &mut follower), "");
    a.add(b"a3\n");
    assert_eq!(rest(&kept, &mut follower), "a3\n");
}

#[test]
fn a_follower_that_is_too_slow_is_told_so_once() {
    let kept = KeptOutput::default();
    let a = process(&kept, "a", Some(160), 1);
    a.add(b"a1\n");
    let mut follower = kept.find(Wanted { follow: true, ..wanted(&[], 9) });
    assert_eq!(rest(&kept, &mut follower), "a1\n");
    for number in 2..=9 {
        a.add(format!("a{number}\n").as_bytes());
    }
    assert_eq!(rest(&kept, &mut follower), "[some lines of a are no longer kept]\na8\na9\n");
    a.add(b"a10\n");
    assert_eq!(rest(&kept, &mut follower), "a10\n");
    assert_eq!(text(&kept, wanted(&[], 9)), "a9\na10\n", "who asks now has missed nothing");
}

#[test]
fn a_follower_is_told_of_lines_that_were_too_many_or_too_long() {
    let kept = KeptOutput::default();
    let a = process(&kept, "a", Some(200), 1);
    a.add(b"a1\n");
    let mut follower = kept.find(Wanted { follow: true, ..wanted(&[], 9) });
    assert_eq!(rest(&kept, &mut follower), "a1\n");
    let line = "0123456789abcde\n";
    a.add(line.repeat(50).as_bytes());
    let gap = "[some lines of a are no longer kept]\n";
    assert_eq!(rest(&kept, &mut follower), format!("{gap}{line}{line}"));
    a.add(&[b"x".repeat(500), b"\n".to_vec()].concat());
    assert_eq!(rest(&kept, &mut follower), gap);
}

#[test]
fn the_oldest_lines_are_forgotten_and_never_a_part_of_one() {
    let kept = KeptOutput::default();
    let a = process(&kept, "a", Some(1000), 1);
    let mut all = String::new();
    let mut number = 0;
    while all.len() < 20_000 {
        let piece: String = (0..number % 7 + 1).map(|line| format!("line {number} {line}\n")).collect();
        a.add(piece.as_bytes());
        all.push_str(&piece);
        number += 1;
        let now = text(&kept, wanted(&[], usize::MAX));
        assert!(all.ends_with(&now) && now.starts_with("line ") && now.len() <= 1000, "{now}");
        assert!(all.len() < 500 || now.len() > 200, "{}", now.len());
    }
}

#[test]
fn one_line_more_forgets_only_the_first_part_of_a_large_read() {
    let kept = KeptOutput::default();
    let a = process(&kept, "a", Some(2000), 1);
    let lines: String = (10..90).map(|number| format!("a line {number}, 0123\n")).collect();
    a.add(lines.as_bytes());
    let before = text(&kept, wanted(&[], usize::MAX));
    assert!(lines.ends_with(&before) && before.len() > 1100, "{before}");
    a.add(b"one more\n");
    let now = text(&kept, wanted(&[], usize::MAX));
    assert!(format!("{lines}one more\n").ends_with(&now) && now.len() > 1000, "{now}");
    assert_eq!(text(&kept, wanted(&[], 2)), "a line 89, 0123\none more\n");
}

#[test]
fn of_a_large_read_the_end_is_kept_and_nothing_older_than_a_line_that_is_too_long() {
    let kept = KeptOutput::default();
    let a = process(&kept, "a", Some(200), 1);
    a.add(&b"0123456789abcde\n".repeat(50));
    let now = text(&kept, wanted(&[], usize::MAX));
    assert_eq!(now, "0123456789abcde\n".repeat(2), "a quarter of what there is room for");
    a.add(&[b"x".repeat(500), b"\n".to_vec()].concat());
    assert_eq!(text(&kept, wanted(&[], usize::MAX)), "");
}

#[test]
fn nothing_is_kept_of_a_job_that_says_so() {
    let kept = KeptOutput::default();
    process(&kept, "a", Some(0), 1).add(b"a1\n");
    assert_eq!(text(&kept, wanted(&[], 9)), "");
    kept.add(&"check".into(), 1, Keep::Nothing, b"c1\n");
    assert!(kept.0.store.borrow().rings.is_empty());
}

#[test]
fn the_last_lines_of_one_process_are_those_of_a_crash() {
    let kept = KeptOutput::default();
    let (first, second) = (process(&kept, "a", None, 1), process(&kept, "a", None, 2));
    first.add(b"old\n");
    second.add(b"one\ntwo\n");
    first.add(b"late\n");
    second.add(b"three\n");
    let last = |lines, bytes| String::from_utf8(kept.last_lines("a", 2, lines, bytes)).unwrap();
    assert_eq!(last(50, 1000), "one\ntwo\nthree\n");
    assert_eq!(last(2, 1000), "two\nthree\n");
    assert_eq!(last(50, 11), "two\nthree\n");
    assert_eq!(last(50, 4), "ree\n", "the end of a line that is too long");
    assert_eq!(kept.last_lines("b", 2, 50, 1000), b"");
}

#[test]
fn a_job_that_was_removed_is_forgotten() {
    let kept = KeptOutput::default();
    process(&kept, "a", None, 1).add(b"a1\n");
    process(&kept, "b", None, 1).add(b"b1\n");
    let jobs = ["b", "raw", "off"].map(|name| Arc::new(JobSpec::new(name.into(), None))).to_vec();
    let mut spec = Spec { jobs, ..Spec::default() };
    Arc::get_mut(&mut spec.jobs[1]).unwrap().raw_output = true;
    Arc::get_mut(&mut spec.jobs[2]).unwrap().keep = Some(0);
    kept.configure(&spec, true);
    assert_eq!(text(&kept, wanted(&[], 9)), "b1\n");
    assert_eq!(kept.why_unkept("b"), None);
    assert!(kept.why_unkept("raw").unwrap().contains("raw") && kept.why_unkept("off").unwrap().contains('0'));
}

#[test]
fn of_a_job_at_the_terminal_or_below_the_level_nothing_is_kept() {
    let kept = KeptOutput::default();
    process(&kept, "old", None, 1).add(b"kept before\n");
    let jobs = ["shell", "old", "new"].map(|name| Arc::new(JobSpec::new(name.into(), None))).to_vec();
    let mut spec = Spec { jobs, ..Spec::default() };
    Arc::get_mut(&mut spec.jobs[0]).unwrap().tty = true;
    kept.configure(&spec, false);
    assert_eq!(kept.why_unkept("shell"), None, "without a terminal its output is logged");
    kept.configure(&spec, true);
    assert!(kept.why_unkept("shell").unwrap().contains("tty"));
    assert_eq!(kept.why_unkept("new"), None);
    spec.logging.level = LogLevel::Warn;
    kept.configure(&spec, true);
    assert!(kept.why_unkept("new").unwrap().contains("level"));
    assert_eq!(kept.why_unkept("old"), None, "there is something to show");
}

#[test]
fn all_jobs_together_are_bounded_and_a_quiet_one_keeps_its_lines() {
    let kept = KeptOutput::default();
    process(&kept, "quiet", None, 1).add(b"precious\n");
    let line = [b"x".repeat(99), b"\n".to_vec()].concat();
    for _ in 0..3 {
        for job in 0..500 {
            process(&kept, &format!("job{job}"), None, 1).add(&line.repeat(400));
            let store = kept.0.store.borrow();
            assert!(store.size <= MOST_BYTES, "{}", store.size);
            assert_eq!(store.size, store.rings.values().map(Ring::size).sum::<usize>());
        }
    }
    assert_eq!(text(&kept, wanted(&["quiet"], 9)), "precious\n");
    let store = kept.0.store.borrow();
    assert!(store.rings.values().all(|ring| ring.len() > 0), "every job has some");
    assert!(store.size > MOST_BYTES / 2);
}

#[test]
fn all_jobs_together_may_use_the_whole_bound_and_no_byte_more() {
    let kept = KeptOutput::default();
    let (a, b) = (process(&kept, "a", Some(u32::MAX), 1), process(&kept, "b", Some(u32::MAX), 2));
    let size = || kept.0.store.borrow().size;
    a.add(b"\n");
    let besides_text = size() - 1;
    let mut line = vec![b'x'; MOST_BYTES - size() - besides_text];
    *line.last_mut().unwrap() = b'\n';
    b.add(&line);
    assert_eq!(size(), MOST_BYTES);
    assert!(text(&kept, wanted(&["b"], 9)).len() == line.len(), "nothing is forgotten");
    a.add(b"\n");
    assert!(size() < MOST_BYTES);
    assert_eq!(text(&kept, wanted(&[], 9)), "\n\n", "the largest job is forgotten");
}

#[test]
fn the_level_is_the_size_at_which_all_fit() {
    assert_eq!(level(&mut [10, 30, 20], 60), usize::MAX);
    assert_eq!(level(&mut [10, 30, 20], 50), 20);
    assert_eq!(level(&mut [10, 30, 30], 30), 10);
    assert_eq!(level(&mut [10, 30, 30], 50), 20);
    assert_eq!(level(&mut [], 50), usize::MAX);
}

#[tokio::test(flavor = "current_thread")]
async fn a_follower_is_woken_and_comes_to_an_end() {
    let kept = KeptOutput::default();
    let (woken, ()) = tokio::join!(kept.more(), async { process(&kept, "a", None, 1).add(b"a1\n") });
    assert!(woken);
    let (woken, ()) = tokio::join!(kept.more(), async { kept.close() });
    assert!(woken);
    assert!(!kept.more().await);
}

#[test]
fn a_reader_that_wanted_a_part_of_output_which_is_forgotten_loses_nothing_of_what_came_later() {
    let kept = KeptOutput::default();
    let a = process(&kept, "a", Some(160), 1);
    a.add(b"a1\na2\n");
    let mut cursor = kept.find(Wanted { follow: true, ..wanted(&["a"], 1) });
    a.add(b"a3\n");
    a.add(b"a4\n");
    assert_eq!(text(&kept, wanted(&["a"], 9)), "a3\na4\n", "the first is forgotten");
    assert_eq!(rest(&kept, &mut cursor), "a3\na4\n");
}
