// SPDX-License-Identifier: Apache-2.0
//
// The daemon and its folders, and the parts of mmtrace that stand beside this program.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/cli/daemon_options.h"
#include "producer/cli/doctor.h"
#include "producer/cli/remote.h"
#include "producer/cli/verdict_child.h"
#include "producer/ground/proc_text.h"
#include "producer/service/armed/armed.h"
#include "producer/service/config/config.h"
#include "producer/service/config/config_check.h"
#include "producer/sources/heap/heap_library.h"
#include "producer/sources/source.h"

#define UNIT            "/lib/systemd/system/mmtrace.service"
#define FLIGHT_RECORDER MMTRACE_DATADIR "/mmtrace/configs/flight_recorder.cfg"

// -- the daemon --

static const char *way_to_start(void)
{
    return access("/run/systemd/system", F_OK) == 0 &&
                   (access("/usr" UNIT, F_OK) == 0 || access("/usr/local" UNIT, F_OK) == 0 ||
                    access("/etc/systemd/system/mmtrace.service", F_OK) == 0)
               ? "sudo systemctl enable --now mmtrace"
               : "sudo mmtrace daemon";
}

void doctor_daemon(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    Pb__TracingServiceState *state = NULL;
    struct err err = {0};
    char version[64];
    (void)machine;
    int r = remote_connect_consumer(&client, &err);
    if (r == 0)
        r = ipc_client_query_state(client, true, REMOTE_TIMEOUT, &state, &err);
    if (r < 0) {
        doctor_found(ret, "%s", err.text);
        doctor_lacks(ret,
                     r == -EACCES ? "status, clone and record without root do not reach the daemon"
                                  : "when memory gets short, no trace of the time before is kept",
                     r == -EACCES
                         ? "sudo mmtrace status, or sudo mmtrace daemon --consumer-group GROUP"
                         : way_to_start());
        return;
    }
    const char *text = state->tracing_service_version;
    doctor_found(ret, "%s, sessions: %d",
                 str_printable(version, sizeof(version), text ? text : "", text ? strlen(text) : 0),
                 state->num_sessions);
    pb__tracing_service_state__free_unpacked(state, NULL);
}

// -- armed configs --

#define CONFIGS_LOOK_MAX 256

// Returns 0 if the daemon would arm the config.
static int config_judge(int folder, const char *name, struct err *err)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    struct config config CLEANUP(config_done) = {0};
    const char *names[ARMED_CONFIGS_MAX];
    CLEANUP(close_fdp) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", name);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s: not a regular file", name);
    int r = fd_read_all(fd, CONFIG_SIZE_MAX, &text);
    if (r < 0)
        return err_errno(err, r, "%s", name);
    r = config_load(name, text.text, text.size, CONFIG_FORMAT_ANY, &config, err);
    source_class_names(names, ELEMENTS(names));
    struct config_check_env env = {
        .source_names = names, .memory_bytes = config_machine_memory_bytes(), .runs = RUNS_ARMED};
    return r < 0 ? r : config_check(config.trace, &env, err);
}

#define NOTHING_ARMED "the daemon keeps no config armed: no trace of memory pressure"

// Returns the path of the flight recorder: the installed file, or the file of the source tree in
// which the program was built. The caller frees the path. NULL: there is none.
static char *flight_recorder_find(void)
{
    char self[PATH_MAX], beside[PATH_MAX + 64];
    if (access(FLIGHT_RECORDER, R_OK) == 0)
        return strdup(FLIGHT_RECORDER);
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    char *found = NULL;
    static const char *const places[] = {"../..",
                                         "../../.."}; // of build/producer and deeper builds
    for (size_t i = 0; !found && i < ELEMENTS(places); i++) {
        snprintf(beside, sizeof(beside), "%.*s/%s/configs/flight_recorder.cfg",
                 slash ? (int)(slash - self) : 0, self, places[i]);
        found = realpath(beside, NULL);
    }
    return found;
}

void doctor_armed(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    DIR *folder CLEANUP(closedirp) = opendir(machine->armed_folder);
    int why = errno;
    size_t n_good = 0, n_bad = 0;
    struct err first = {0};
    char mend[DOCTOR_TEXT_MAX], line[DOCTOR_TEXT_MAX], bad[NAME_MAX + 1] = "";
    char *config CLEANUP(freep) = flight_recorder_find();
    if (config)
        snprintf(mend, sizeof(mend), "sudo install -D -t %s %s", machine->armed_folder, config);
    else
        snprintf(mend, sizeof(mend),
                 "in mmtrace's source folder: sudo install -D -t %s configs/flight_recorder.cfg",
                 machine->armed_folder);
    if (!folder) {
        doctor_found(ret, "%s: %s", machine->armed_folder, strerror(why));
        doctor_lacks(ret, NOTHING_ARMED, why == EACCES ? "sudo mmtrace doctor" : mend);
        return;
    }
    struct dirent *entry;
    for (size_t i = 0; i < CONFIGS_LOOK_MAX && (entry = readdir(folder)); i++) {
        struct err err = {0};
        if (!str_ends_with(entry->d_name, ARMED_SUFFIX))
            continue;
        if (config_judge(dirfd(folder), entry->d_name, &err) == 0)
            n_good++;
        else if (n_bad++ == 0) {
            first = err;
            str_printable(bad, sizeof(bad), entry->d_name, strlen(entry->d_name));
        }
    }
    if (n_bad > 0) {
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(first.text, "\n"), first.text);
        doctor_found(ret, "%zu armed, %zu wrong: %s", n_good, n_bad, line);
        snprintf(mend, sizeof(mend), "mmtrace record --check -c %s/%s", machine->armed_folder, bad);
        doctor_lacks(ret, "the daemon ignores the wrong configs", mend);
        return;
    }
    doctor_found(ret, "%zu in %s", n_good, machine->armed_folder);
    if (n_good == 0)
        doctor_lacks(ret, NOTHING_ARMED, mend);
}

// -- the disk --

#define ROOM_MIN ((uint64_t)1 << 30) // traces of two or three configs at the daemon's default

void doctor_disk(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    char path[PATH_MAX];
    struct statvfs disk;
    snprintf(path, sizeof(path), "%s", machine->traces_folder);
    int r;
    // The daemon makes the folder. Until then, the folder above has the same disk.
    while ((r = statvfs(path, &disk) < 0 ? -errno : 0) == -ENOENT && strlen(path) > 1) {
        char *slash = strrchr(path, '/');
        if (!slash)
            break;
        slash[slash == path] = '\0';
    }
    if (r < 0) {
        doctor_found(ret, "%s: %s", path, strerror(-r));
        if (r != -EACCES)
            doctor_lacks(ret, "the daemon cannot keep traces",
                         "mmtrace daemon --output-dir of another disk");
        return;
    }
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (disk.f_flag & ST_RDONLY) {
        doctor_found(ret, "%s is read-only", path);
        doctor_lacks(ret, "the daemon cannot keep traces",
                     "mmtrace daemon --output-dir of another disk");
        return;
    }
    doctor_found(ret, "%.1f GB are free in %s", (double)free_bytes / (1 << 30), path);
    if (free_bytes < ROOM_MIN)
        doctor_lacks(ret, "traces may not fit: the daemon then keeps them in memory",
                     "make room, or: mmtrace daemon --output-dir of another disk");
}

// -- parts beside this program --

void doctor_heap(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    char path[PATH_MAX], text[64];
    long level = 0;
    if (heap_library_find(path, sizeof(path)) < 0) {
        doctor_found(ret, "libmmheap.so is not there");
        doctor_lacks(ret, "no heap profiles", "build with -Dheap=enabled and install");
        return;
    }
    struct span scope =
        text_file_span(text, sizeof(text), machine->proc, "/sys/kernel/yama/ptrace_scope");
    if (span_size(scope))
        level = strtol(text, NULL, 10);
    doctor_found(ret, "%s", path);
    if (level > (geteuid() == 0 ? 2 : 0)) {
        doctor_found(ret, "ptrace_scope is %ld", level);
        doctor_lacks(ret, "mmtrace heap -p attaches to no running program",
                     "sudo sysctl kernel.yama.ptrace_scope=0");
    }
}

void doctor_verdict(const struct doctor_machine *machine, struct doctor_finding *ret)
{
    (void)machine;
    if (verdict_is_possible()) {
        doctor_found(ret, "mmsql is there");
        return;
    }
    doctor_found(ret, "mmsql is neither beside mmtrace nor in the system's folders");
    doctor_lacks(ret, "recordings end without a verdict", "install mmsql beside mmtrace");
}
