// SPDX-License-Identifier: Apache-2.0
//
// mmsql open: hands one file to the Perfetto UI in a browser on this machine. The UI may fetch from
// 127.0.0.1:9001 (its policy names the port), if the answer allows its origin. With --report, the
// browser gets the report of the trace as a separate page.
//
// Other programs and other users of the machine can connect, too. Therefore the path has a random
// word that only the printed link has. The Host header must be this address: a page that rebinds
// its name has another address. Only the origin of the UI may read a trace, and no other page may
// read a report. Only the first bytes of the trace are looked at here, for its kind: a child makes
// the report, in the sandbox of its verb.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/say.h"
#include "converter/cli/verb_options.h"
#include "converter/ground/spill.h"
#include "converter/input/ui_kinds.h"

#define PORT        9001
#define ORIGIN      "https://ui.perfetto.dev"
#define REQUEST_MAX 16384
#define HEAD_BYTES  16384               // of a file, to know its kind
#define GUESTS_MAX  32                  // connections without a complete request
#define PATIENCE    (5 * NSEC_PER_SEC)  // for a request
#define STALL       (60 * NSEC_PER_SEC) // for a reader that takes no data

static const char help[] =
    "usage: mmsql open [OPTION]... TRACE\n"
    "\n"
    "Opens a trace in the Perfetto UI (" ORIGIN "): prints a link for a\n"
    "browser on this machine, and serves the file on 127.0.0.1 until the UI has\n"
    "fetched it. The trace stays on this machine. Only the holder of the link can\n"
    "fetch the file, and only pages of the UI can read the answer. A file that the UI\n"
    "cannot read, such as a database, is refused.\n"
    "\n"
    "      --report  serve the page of 'mmsql report' instead: TRACE may be any file\n"
    "                that 'mmsql report' reads\n"
    "      --port N  listen on port N; default: 9001, the only one that the UI uses\n"
    "  -h, --help    this text\n"
    "\n"
    "Examples:\n"
    "  mmsql open trace.pftrace\n"
    "  mmsql open --report report.zip\n"
    "\n"
    "On another machine than the browser's, forward the port first:\n"
    "  ssh -L 9001:127.0.0.1:9001 MACHINE mmsql open TRACE\n"
    "\n"
    "Exit code: 0 the file was fetched; 1 a failure; 2 wrong usage.\n";

struct served {
    int fd; // of the file
    off_t size;
    int port;
    char path[64];  // of the URL
    bool is_report; // a page that the browser shows
};

struct request {
    char text[REQUEST_MAX + 1];
    size_t size;
};

// A connection whose request is not complete.
struct guest {
    int fd;       // owned
    nsec_t until; // the end of its time
    struct request request;
};

struct guests {
    struct guest *all[GUESTS_MAX]; // owned; the oldest first
    size_t n;
};

static bool wait_for(int fd, short events, nsec_t until)
{
    for (;;) {
        nsec_t left = until - nsec_now(CLOCK_MONOTONIC);
        struct pollfd p = {.fd = fd, .events = events};
        int n = left > 0 ? poll(&p, 1, (int)(left / NSEC_PER_MSEC) + 1) : 0;
        if (n >= 0 || errno != EINTR)
            return n > 0;
    }
}

// Reads the part of the request that has arrived, up to the empty line that ends the headers.
// Returns 1 if the request is complete, 0 if more is to come, or a negative errno.
static int request_take(int client, struct request *request)
{
    while (request->size < REQUEST_MAX) {
        ssize_t n =
            recv(client, request->text + request->size, REQUEST_MAX - request->size, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return n < 0 ? -errno : -EPIPE;
        request->size += (size_t)n;
        request->text[request->size] = 0;
        if (memchr(request->text, 0, request->size))
            return -EPROTO;
        if (strstr(request->text, "\r\n\r\n"))
            return 1;
    }
    return -EMSGSIZE;
}

// Copies the value of a header. Returns false if the header is missing or too long.
static bool header_read(const struct request *request, const char *name, char *ret, size_t size)
{
    size_t n = strlen(name);
    for (const char *line = strstr(request->text, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) != 0 || line[n] != ':')
            continue;
        const char *value = line + n + 1 + strspn(line + n + 1, " \t");
        size_t length = strcspn(value, "\r\n");
        if (length >= size)
            return false;
        memcpy(ret, value, length);
        ret[length] = 0;
        return true;
    }
    return false;
}

static bool host_fits(const struct served *served, const struct request *request)
{
    char host[64], wanted[64];
    if (!header_read(request, "Host", host, sizeof(host)))
        return false;
    snprintf(wanted, sizeof(wanted), "127.0.0.1:%d", served->port);
    return str_eq(host, wanted);
}

// Checks the Origin header. A browser that opens a page sends no origin. A page that fetches a file
// sends its origin.
static bool origin_fits(const struct served *served, const struct request *request)
{
    char origin[64];
    bool is_there = header_read(request, "Origin", origin, sizeof(origin));
    return served->is_report ? !is_there : is_there && str_eq(origin, ORIGIN);
}

static bool send_all(int client, const char *text, size_t size)
{
    while (size) {
        if (!wait_for(client, POLLOUT, nsec_now(CLOCK_MONOTONIC) + STALL))
            return false;
        ssize_t n = send(client, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return false;
        text += n;
        size -= (size_t)n;
    }
    return true;
}

static void refuse(int client, const char *status)
{
    char text[128];
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);
    send_all(client, text, (size_t)n);
}

static bool file_send(const struct served *served, int client)
{
    off_t at = 0;
    while (at < served->size) {
        if (!wait_for(client, POLLOUT, nsec_now(CLOCK_MONOTONIC) + STALL))
            return false;
        ssize_t n = sendfile(client, served->fd, &at, (size_t)(served->size - at));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return false;
    }
    return true;
}

// Returns true if the client has the whole file.
static bool client_serve(const struct served *served, const struct request *request, int client)
{
    char line[160], head[512];
    size_t n = strcspn(request->text, "\r");
    snprintf(line, sizeof(line), "%.*s", (int)(n < sizeof(line) ? n : sizeof(line) - 1),
             request->text);
    char *blank = strchr(line, ' '), *path = blank ? blank + 1 : NULL;
    char *end = path ? strchr(path, ' ') : NULL;
    if (!end || !str_starts_with(end + 1, "HTTP/1.")) {
        refuse(client, "400 Bad Request");
        return false;
    }
    *blank = *end = 0;
    bool asks = str_eq(line, "OPTIONS"), heads = str_eq(line, "HEAD"), gets = str_eq(line, "GET");
    if (!host_fits(served, request) || !origin_fits(served, request)) {
        refuse(client, "403 Forbidden");
        return false;
    }
    if (!str_eq(path, served->path)) {
        refuse(client, "404 Not Found");
        return false;
    }
    if ((!asks || served->is_report) && !heads && !gets) {
        refuse(client, "405 Method Not Allowed");
        return false;
    }
    n = (size_t)snprintf(
        head, sizeof(head),
        "HTTP/1.1 %s\r\n%s%sCache-Control: no-store\r\nContent-Type: %s\r\n"
        "Content-Length: %lld\r\nConnection: close\r\n\r\n",
        asks ? "204 No Content" : "200 OK",
        served->is_report ? "Cross-Origin-Resource-Policy: same-origin\r\nX-Content-Type-Options: "
                            "nosniff\r\n"
                          : "Access-Control-Allow-Origin: " ORIGIN "\r\nVary: Origin\r\n",
        asks ? "Access-Control-Allow-Methods: GET\r\nAccess-Control-Allow-Private-Network: true\r\n"
             : "",
        served->is_report ? "text/html; charset=utf-8" : "application/octet-stream",
        asks ? 0LL : (long long)served->size);
    if (!send_all(client, head, n) || !gets || !file_send(served, client))
        return false;
    // The client has the answer when it has closed its end, or when its time is over.
    shutdown(client, SHUT_WR);
    wait_for(client, POLLIN, nsec_now(CLOCK_MONOTONIC) + PATIENCE);
    return true;
}

static void guest_remove(struct guests *guests, size_t at)
{
    close_fd(guests->all[at]->fd);
    free(guests->all[at]);
    memmove(&guests->all[at], &guests->all[at + 1], (--guests->n - at) * sizeof(guests->all[0]));
}

static void guests_done(struct guests *guests)
{
    while (guests->n)
        guest_remove(guests, guests->n - 1);
}

// Accepts a connection. If there are too many connections, closes the oldest. Returns 0 or a
// negative errno.
static int guest_accept(struct guests *guests, int listener)
{
    CLEANUP(close_fdp) int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return errno == EINTR || errno == ECONNABORTED || errno == EAGAIN ? 0 : -errno;
    struct guest *guest = malloc(sizeof(*guest));
    if (!guest)
        return -ENOMEM;
    guest->fd = steal_fd(&fd);
    guest->until = nsec_now(CLOCK_MONOTONIC) + PATIENCE;
    guest->request.size = 0;
    if (guests->n == GUESTS_MAX)
        guest_remove(guests, 0);
    guests->all[guests->n++] = guest;
    return 0;
}

// Waits until a client connects or sends data, or until the time of the oldest guest ends.
static int guests_wait(const struct guests *guests, int listener)
{
    struct pollfd polls[GUESTS_MAX + 1] = {{.fd = listener, .events = POLLIN}};
    int wait_ms = -1;
    for (size_t i = 0; i < guests->n; i++)
        polls[i + 1] = (struct pollfd){.fd = guests->all[i]->fd, .events = POLLIN};
    if (guests->n) {
        nsec_t left = guests->all[0]->until - nsec_now(CLOCK_MONOTONIC);
        wait_ms = left > 0 ? (int)(left / NSEC_PER_MSEC) + 1 : 0;
    }
    int n = poll(polls, guests->n + 1, wait_ms);
    return n < 0 && errno != EINTR ? -errno : 0;
}

// Answers complete requests, and ends connections that are broken or late. Returns true if a client
// has the whole file.
static bool guests_serve(struct guests *guests, const struct served *served)
{
    for (size_t i = guests->n; i-- > 0;) {
        struct guest *guest = guests->all[i];
        int r = request_take(guest->fd, &guest->request);
        if (r > 0 && client_serve(served, &guest->request, guest->fd))
            return true;
        if (r != 0 || nsec_now(CLOCK_MONOTONIC) >= guest->until)
            guest_remove(guests, i);
    }
    return false;
}

// Serves until a client has the whole file. Other users of the machine may connect and send no
// data.
static int serve(const struct served *served, int listener)
{
    CLEANUP(guests_done) struct guests guests = {.n = 0};
    int r = 0;
    while (r == 0) {
        r = guests_wait(&guests, listener);
        if (r == 0)
            r = guest_accept(&guests, listener);
        if (r == 0 && guests_serve(&guests, served))
            return 0;
    }
    return r;
}

static int listener_open(int port, struct err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(fd, 16) == 0)
        return fd;
    int r = -errno;
    if (fd >= 0)
        close(fd);
    err_errno(err, r, "127.0.0.1:%d", port);
    return r == -EADDRINUSE ? err_hint(err, r, "another program has the port: end that program")
                            : r;
}

// Refuses a file that the UI cannot read, and warns of a file that the UI may not know.
static int file_check(const char *path, int fd, struct err *err)
{
    uint8_t head[HEAD_BYTES];
    const struct kind *kind;
    ssize_t n = pread(fd, head, sizeof(head), 0);
    if (n < 0)
        return err_errno(err, -errno, "%s", path);
    if (n == 0) {
        err_set(err, -ENODATA, "%s: the file is empty", path);
        return err_hint(err, -ENODATA, "the recording or the copy of it failed: record again");
    }
    switch (ui_judge(head, (size_t)n, &kind)) {
    case UI_READS:
        return 0;
    case UI_MAY_READ:
        say("%s: the Perfetto UI may not know this file: %s", path, kind->name);
        return 0;
    case UI_REFUSES:
        break;
    }
    err_set(err, -EBADMSG, "%s: the Perfetto UI cannot read %s", path, kind->name);
    return err_hint(err, -EBADMSG, "%s",
                    kind->id == KIND_DATABASE
                        ? "'mmsql report' and 'mmsql query' read a database that mmsql made"
                        : kind->advice);
}

static int file_open(const char *path, struct served *ret, struct err *err)
{
    struct stat st;
    ret->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (ret->fd < 0 || fstat(ret->fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s: not a regular file", path);
    ret->size = st.st_size;
    return file_check(path, ret->fd, err);
}

// Makes the report by a child, into a file without a name.
static int report_make(const char *path, struct served *ret, struct err *err)
{
    posix_spawn_file_actions_t actions;
    char verb[] = "report", to[] = "-o", standard_output[] = "-", end[] = "--", name[] = "mmsql";
    char *argv[] = {name, verb, to, standard_output, end, (char *)(uintptr_t)path, NULL};
    struct stat st;
    pid_t child;
    int status = -1;
    ret->fd = unnamed_open(temporary_folder(NULL));
    if (ret->fd < 0)
        return err_errno(err, -errno, "temporary file in %s", temporary_folder(NULL));
    int r = -posix_spawn_file_actions_init(&actions);
    if (r < 0)
        return err_errno(err, r, "report");
    r = -posix_spawn_file_actions_adddup2(&actions, ret->fd, STDOUT_FILENO);
    if (r == 0)
        r = -posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r < 0)
        return err_errno(err, r, "report");
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    // After exit code 1, the report may lack a part, which the child has reported.
    if (!WIFEXITED(status) || fstat(ret->fd, &st) < 0 || st.st_size == 0)
        return err_set(err, -EIO, "%s: there is no report", path);
    ret->size = st.st_size;
    ret->is_report = true;
    return 0;
}

// Makes the path of the URL: a random word, and an ending that does not reveal the file's name to
// the UI.
static int path_make(struct served *ret, struct err *err)
{
    unsigned char word[16];
    if (getrandom(word, sizeof(word), 0) != (ssize_t)sizeof(word))
        return err_errno(err, -errno, "random numbers");
    char *at = ret->path;
    *at++ = '/';
    for (size_t i = 0; i < sizeof(word); i++)
        at += snprintf(at, 3, "%02x", word[i]);
    strcpy(at, ret->is_report ? "/report.html" : "/trace");
    return 0;
}

static void served_done(struct served *served)
{
    if (served->fd >= 0)
        close(served->fd);
}

static int open_run(const char *path, int port, bool is_report)
{
    CLEANUP(served_done) struct served served = {.fd = -1, .port = port};
    struct err err = {0};
    int r = is_report ? report_make(path, &served, &err) : file_open(path, &served, &err);
    if (r == 0)
        r = path_make(&served, &err);
    CLEANUP(close_fdp) int listener = r == 0 ? listener_open(port, &err) : -1;
    if (listener < 0) {
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    printf("%shttp://127.0.0.1:%d%s\n", is_report ? "" : ORIGIN "/#!/?url=", port, served.path);
    if (fflush(stdout) != 0) {
        say("standard output: %s", strerror(errno));
        return EXIT_FAILED;
    }
    say("open the link in a browser on this machine; the file is served until it was fetched "
        "(Ctrl-C ends)");
    r = serve(&served, listener);
    if (r < 0) {
        say("127.0.0.1:%d: %s", port, strerror(-r));
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static int run_open(int argc, char **argv)
{
    struct options {
        int64_t port;
        bool report;
    } options = {.port = PORT};
    static const struct verb_option rows[] = {
        {"report", OPTION_FLAG, offsetof(struct options, report)},
        {"port", OPTION_NATURAL, offsetof(struct options, port), .value = 1, .max = 65535},
        {0},
    };
    int code;
    if (!verb_options_read("open", help, rows, argc, argv, &options, &code))
        return code;
    if (argc - optind != 1)
        return usage_error("open", "one trace is needed");
    return open_run(argv[optind], (int)options.port, options.report);
}

const struct program_verb verb_open = {
    .name = "open",
    .arguments = "TRACE",
    .summary = "open a trace in the Perfetto UI of a browser on this machine",
    .run = run_open,
};
