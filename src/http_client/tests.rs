use tokio::io::duplex;

use super::*;

fn request(method: &str, body: &str) -> Request {
    let headers = vec![("host".to_owned(), "x".to_owned())];
    Request { method: method.to_owned(), target: "/".to_owned(), headers, body: body.to_owned() }
}

async fn whole<S: AsyncRead + AsyncWrite + Unpin>(response: &mut Response<S>) -> io::Result<String> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        assert!(!piece.is_empty());
        body.extend(piece);
    }
    assert_eq!(response.chunk().await?, None, "the end of a body stays its end");
    Ok(String::from_utf8(body).unwrap())
}

/// The status and the body of a response that arrives in pieces of at most this size.
async fn receive(response: &str, piece: usize, method: &str) -> io::Result<(u16, String)> {
    let (mut stream, server) = duplex(piece);
    let (mut requests, mut responses) = tokio::io::split(server);
    let sent = async {
        let _ = responses.write_all(response.as_bytes()).await;
        let _ = responses.shutdown().await;
    };
    let taken = async {
        let _ = tokio::io::copy(&mut requests, &mut tokio::io::sink()).await;
    };
    let received = async {
        let mut response = send(&mut stream, &request(method, "")).await?;
        let body = whole(&mut response).await?;
        Ok((response.status, body))
    };
    tokio::select! {
        received = received => received,
        _ = async { tokio::join!(sent, taken) } => unreachable!("the request has not ended"),
    }
}

/// The same, and it must not matter how the response is cut into pieces.
async fn received(response: &str, method: &str) -> Result<(u16, String), String> {
    let receive = async |piece| receive(response, piece, method).await.map_err(|error| error.to_string());
    let first = receive(1).await;
    for piece in [2, 3, 7, response.len().max(1)] {
        assert_eq!(receive(piece).await, first, "in pieces of {piece}");
    }
    first
}

fn response(status: u16, body: &str) -> Result<(u16, String), String> {
    Ok((status, body.to_owned()))
}

#[test]
fn a_request_says_how_long_its_body_is() {
    for (method, body, expected) in [
        ("GET", "", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
        ("HEAD", "", "HEAD / HTTP/1.1\r\nhost: x\r\n\r\n"),
        ("PUT", "", "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"),
        ("PUT", "{}", "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"),
    ] {
        assert_eq!(request(method, body).encode(), expected);
    }
}

#[tokio::test]
async fn a_body_ends_by_its_length_in_chunks_or_with_the_connection() {
    for head in ["content-length: 12", "x: y", "Content-Length:12 \r\nx: y"] {
        let text = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nall is well.");
        assert_eq!(received(&text, "GET").await, response(200, "all is well."));
    }
    assert_eq!(received("HTTP/1.0 200 OK\n\nhello", "GET").await, response(200, "hello"));
    let chunks = "HTTP/1.1 503 No\r\ntransfer-encoding: Chunked\r\n\r\n4;x=y\r\nall \r\n8\r\nis well.\r\n0\r\na: b\r\n\r\n";
    assert_eq!(received(chunks, "GET").await, response(503, "all is well."));
}

#[tokio::test]
async fn nothing_after_the_end_of_a_body_belongs_to_it() {
    let length = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes and more";
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\nmore";
    for text in [length, chunks] {
        assert_eq!(received(text, "GET").await, response(200, "yes"));
    }
}

#[tokio::test]
async fn a_response_to_head_and_one_with_status_204_or_304_has_no_body_whatever_it_says() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
        let text = format!("HTTP/1.1 {status} X\r\ncontent-length: 3\r\n\r\n");
        assert_eq!(received(&text, method).await, response(status, ""));
    }
}

#[tokio::test]
async fn interim_responses_are_skipped() {
    let switched = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nwhatever";
    assert_eq!(received(switched, "GET").await, response(101, ""), "101 is the last response");
    let text =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.0 200 OK\r\n\r\nyes";
    assert_eq!(received(text, "GET").await, response(200, "yes"));
}

#[tokio::test]
async fn untidy_headers_are_accepted() {
    let head = "HTTP/1.1 200\r\nServer : x\r\nfolded: a\r\n b\r\nnone\r\nContent-Length : 3\r\n\r\n";
    assert_eq!(received(&format!("{head}yes and more"), "GET").await, response(200, "yes"));
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n";
    assert_eq!(received(&format!("{head}3\r\nyes\r\n0\r\n\r\n"), "GET").await, response(200, "yes"));
}

#[tokio::test]
async fn a_malformed_response_is_an_error_that_says_what_is_wrong() {
    for (text, reason) in [
        ("", "the connection ended before an answer"),
        ("HTTP/1.1 2", "the connection ended before an answer"),
        ("HTTP/1.1 200 OK\r\n", "the connection ended before an answer"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP: invalid HTTP version"),
        ("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n", "the answer's content-length is not a number"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nyes", "the connection ended within the answer"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", "a chunk of the answer has no size"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nyes\r\n",
            "a chunk of the answer is longer than its size",
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe",
            "the connection ended within the answer",
        ),
    ] {
        assert_eq!(received(text, "GET").await, Err(reason.to_owned()), "{text:?}");
    }
}

#[tokio::test]
async fn the_body_before_a_malformed_chunk_is_received_even_if_one_read_brings_both() {
    let text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nyes\r\nx\r\n";
    for piece in [1, 7, text.len()] {
        let (stream, mut server) = duplex(1 << 10);
        let mut response = tokio::spawn(async move { send(stream, &request("GET", "")).await.unwrap() });
        for part in text.as_bytes().chunks(piece) {
            server.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        let response = (&mut response).await;
        let (mut response, mut body) = (response.unwrap(), Vec::new());
        let error = loop {
            match response.chunk().await {
                Ok(piece) => body.extend(piece.unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(
            (body.as_slice(), error.to_string()),
            (&b"yes"[..], "a chunk of the answer has no size".to_owned())
        );
    }
}

#[tokio::test]
async fn a_head_without_end_is_given_up() {
    let refused = async |text: &str| receive(text, 1 << 20, "GET").await.unwrap_err().to_string();
    let too_long = "the headers of the answer are longer than 65536 bytes";
    let many = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(LONGEST_HEAD));
    assert_eq!(refused(&many).await, "the answer is not HTTP: too many headers");
    let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(2 * LONGEST_HEAD));
    assert_eq!(refused(&long).await, too_long);
    assert_eq!(refused(&"HTTP/1.1 100 Continue\r\n\r\n".repeat(LONGEST_HEAD)).await, too_long);
    let chunk =
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;{}", "x".repeat(2 * LONGEST_HEAD));
    assert_eq!(refused(&chunk).await, "a chunk of the answer has no size");
}

#[tokio::test]
async fn a_server_that_refuses_before_it_has_read_all_is_heard() {
    let (stream, mut server) = duplex(1 << 10);
    let refuses = async move {
        server.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        server.read_exact(&mut [0; 16]).await.unwrap();
    };
    let request = request("PUT", &"x".repeat(1 << 20));
    let (response, ()) = tokio::join!(send(stream, &request), refuses);
    assert_eq!(response.unwrap().status, 413);
}
