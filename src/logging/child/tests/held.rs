//! Output that is held back.

use super::*;

/// The same for a stream whose output is held back.
fn held_stream_from(pipe: OwnedFd, log: &Log) -> ChildStream {
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    ChildOutput::start(log, KeptOutput::default()).unwrap().add_held(pipe, label(), Keep::Nothing).unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn held_output_is_logged_when_it_is_released_at_a_level_that_depends_on_the_outcome() {
    for (level, succeeded, expected) in [
        (LogLevel::Info, true, &[] as &[&str]),
        (LogLevel::Info, false, &["one", "two"]),
        (LogLevel::Debug, true, &["one", "two"]),
        (LogLevel::Debug, false, &["one", "two"]),
        (LogLevel::Warn, false, &[]),
    ] {
        told(async {
            let mut story = Story::new(level);
            let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
            story.stream = held_stream_from(reader, &story.log);
            story.child = writer.into();
            story.child.write_all(b"one\ntwo").unwrap();
            story.stream.drain();
            assert_eq!(story.messages(), [""; 0]);
            story.stream.release(succeeded);
            assert_eq!(story.messages(), expected, "{level:?} {succeeded}");
            story.stream.release(!succeeded);
            assert_eq!(story.messages(), expected, "released once");
            story.child.write_all(b"later\n").unwrap();
            story.stream.drain();
            assert_eq!(story.messages().len(), expected.len() + usize::from(!expected.is_empty()));
        })
        .await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn held_output_is_read_while_the_log_has_no_room_and_later_output_is_not() {
    told(async {
        let (log, mut log_writer) = Log::simulated(4096, 0);
        log.sink().append(|out| out.resize(4096, b'\n'));
        assert!(!log.sink().has_room());
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let stream = held_stream_from(reader, &log);
        let mut child = File::from(writer);
        let mut left = 10 * CHUNK;
        until("all of it is read", || {
            left -= child.write(&vec![b'x'; left.min(CHUNK)]).unwrap_or(0);
            left == 0
        })
        .await;

        stream.drain();
        stream.release(false);
        log_writer.news();
        child.write_all(b"later\n").unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        assert_eq!(log_writer.news(), b"", "there is no room");
        log_writer.write();
        until("the later line", || log_writer.news().ends_with(b" app 7 later\n")).await;
        drop(child);
        until("the end", || !stream.is_open()).await;
    })
    .await;
}
