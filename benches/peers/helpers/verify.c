// verify JOBS COUNT FILE…: reads what `lines` wrote through a log, whatever stands before and after on a line, and
// prints: lines found, lines lost, lines out of order, lines damaged. FILE - is stdin.
#include "common.h"

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int jobs = atoi(arguments[1]);
    long each = atol(arguments[2]);
    long *next = calloc((size_t)jobs, sizeof *next);
    long *seen = calloc((size_t)jobs, sizeof *seen);
    long found = 0, disorder = 0, damaged = 0;
    for (int index = 3; index < count; index++) {
        FILE *file = strcmp(arguments[index], "-") ? fopen(arguments[index], "r") : stdin;
        if (!file) fail(arguments[index]);
        static char buffer[1 << 20];
        setvbuf(file, buffer, _IOFBF, sizeof buffer);
        char *line = NULL;
        size_t room = 0;
        ssize_t length;
        while ((length = getline(&line, &room, file)) > 0) {
            char *mark = memchr(line, '~', (size_t)length);
            if (!mark) continue;
            long left = line + length - mark;
            // "~007~000000123~", then 84 x.
            if (left < 99 || mark[4] != '~' || mark[14] != '~') { damaged++; continue; }
            long job = strtol(mark + 1, NULL, 10), sequence = strtol(mark + 5, NULL, 10);
            size_t body = strspn(mark + 15, "x");
            if (job < 0 || job >= jobs || body != 84 || memchr(mark + 15, '~', (size_t)(left - 15))) { damaged++; continue; }
            if (sequence != next[job]) disorder++;
            next[job] = sequence + 1;
            seen[job]++;
            found++;
        }
        free(line);
    }
    long lost = 0;
    for (int job = 0; job < jobs; job++) lost += each - seen[job];
    printf("%ld %ld %ld %ld\n", found, lost, disorder, damaged);
    return 0;
}
