// httpd PORT COUNTS: answers every request with 200 and "ok", on any number of connections that it keeps open.
// The file COUNTS of 16 bytes holds how many connections and how many requests there were.
#include "common.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/plain\r\n\r\nok\n";

int main(int count, char **arguments) {
    if (count < 3) return 2;
    int file = open(arguments[2], O_RDWR);
    if (file < 0) fail(arguments[2]);
    volatile uint64_t *counts = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), poll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) fail("bind");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int number = epoll_wait(poll, ready, 64, -1);
        for (int index = 0; index < number; index++) {
            int socket = ready[index].data.fd;
            if (socket == listener) {
                int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (client < 0) continue;
                counts[0]++;
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                event.data.fd = client;
                epoll_ctl(poll, EPOLL_CTL_ADD, client, &event);
                continue;
            }
            // A request of a health check fits one read; its end is the empty line.
            char request[4096];
            ssize_t length = read(socket, request, sizeof request);
            if (length <= 0) {
                close(socket);
            } else if (memmem(request, (size_t)length, "\r\n\r\n", 4)) {
                counts[1]++;
                if (write(socket, answer, sizeof answer - 1) < 0) close(socket);
            }
        }
    }
}
