// load ADDRESS METHOD PATH CONNECTIONS MILLISECONDS [PAUSE]: one request after the other on each connection, kept open,
// PAUSE microseconds after each answer. ADDRESS is a unix socket's path or a port of this machine. A PATH with "|" is two, in turns. Prints: requests,
// nanoseconds, median and 99th percentile in nanoseconds, answers that were not 2xx, bytes of the last answer.
#include "common.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { MOST = 4 << 20, ROOM = 4 << 20 };

struct connection {
    int socket;
    uint64_t sent;
    size_t filled, due;
    char *answer;
};

static char requests[2][1024];
static size_t lengths[2];
static unsigned turns;

static int dial(const char *address) {
    int one = 1, connection;
    if (address[0] == '/') {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        strncpy(name.sun_path, address, sizeof name.sun_path - 1);
        connection = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(connection, (struct sockaddr *)&name, sizeof name)) fail(address);
    } else {
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(address)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        connection = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(connection, (struct sockaddr *)&name, sizeof name)) fail(address);
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return connection;
}

static void ask(struct connection *connection) {
    unsigned turn = turns++ & 1;
    connection->filled = connection->due = 0;
    connection->sent = now();
    if (write(connection->socket, requests[turn], lengths[turn]) != (ssize_t)lengths[turn]) fail("write");
}

// Whether the whole answer has come: headers with a Content-Length, or a chunked body up to its last chunk.
static int is_whole(struct connection *connection) {
    if (!connection->due) {
        connection->answer[connection->filled] = 0;
        char *body = strstr(connection->answer, "\r\n\r\n");
        if (!body) return 0;
        char *length = strcasestr(connection->answer, "\r\ncontent-length:");
        if (length && length < body) {
            connection->due = (size_t)(body + 4 - connection->answer) + strtoul(length + 17, NULL, 10);
        } else {
            return connection->filled >= 5 && !memcmp(connection->answer + connection->filled - 5, "0\r\n\r\n", 5);
        }
    }
    return connection->filled >= connection->due;
}

static int by_size(const void *left, const void *right) {
    uint64_t first = *(const uint64_t *)left, second = *(const uint64_t *)right;
    return (first > second) - (first < second);
}

int main(int count, char **arguments) {
    if (count < 6) return 2;
    int number = atoi(arguments[4]);
    uint64_t end = now() + (uint64_t)atol(arguments[5]) * 1000000u;
    useconds_t pause = count > 6 ? (useconds_t)atol(arguments[6]) : 0;
    char *second = strchr(arguments[3], '|');
    if (second) *second++ = 0;
    const char *paths[2] = {arguments[3], second ? second : arguments[3]};
    for (int index = 0; index < 2; index++)
        lengths[index] = (size_t)snprintf(requests[index], sizeof requests[index], "%s %s HTTP/1.1\r\nHost: bench\r\n%s\r\n",
                                          arguments[2], paths[index], strcmp(arguments[2], "GET") ? "Content-Length: 0\r\n" : "");
    struct connection *connections = calloc((size_t)number, sizeof *connections);
    uint64_t *times = malloc(MOST * sizeof *times);
    size_t answered = 0, refused = 0, bytes = 0;
    int poll = epoll_create1(0);
    uint64_t start = now();
    for (int index = 0; index < number; index++) {
        connections[index].socket = dial(arguments[1]);
        connections[index].answer = malloc(ROOM + 1);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[index]};
        epoll_ctl(poll, EPOLL_CTL_ADD, connections[index].socket, &event);
        ask(&connections[index]);
    }
    struct epoll_event ready[64];
    while (now() < end && answered < MOST) {
        int found = epoll_wait(poll, ready, 64, 1000);
        for (int index = 0; index < found; index++) {
            struct connection *connection = ready[index].data.ptr;
            ssize_t length = read(connection->socket, connection->answer + connection->filled, ROOM - connection->filled);
            if (length <= 0) fail("read");
            connection->filled += (size_t)length;
            if (!is_whole(connection)) continue;
            if (answered < MOST) times[answered++] = now() - connection->sent;
            if (strncmp(connection->answer + 9, "2", 1)) refused++;
            bytes = connection->filled;
            if (pause) usleep(pause);
            ask(connection);
        }
    }
    uint64_t spent = now() - start;
    if (!answered) return 1;
    qsort(times, answered, sizeof *times, by_size);
    printf("%zu %llu %llu %llu %zu %zu\n", answered, (unsigned long long)spent, (unsigned long long)times[answered / 2],
           (unsigned long long)times[answered * 99 / 100], refused, bytes);
    return 0;
}
