// SPDX-License-Identifier: Apache-2.0
//
// The search for files, in real temporary trees, and in a /proc made of plain files and links.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/map.h"
#include "common/str.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/maps.h"
#include "producer/sources/requester.h"
#include "producer/sources/residency/file_set.h"
#include "producer/sources/residency/set_user.h"
#include "tests/unit/residency_tree.h"

static void trees_globs_and_names_give_each_file_once(void **state)
{
    (void)state;
    make_dir("a");
    make_dir("a/b");
    make_file("a/one", 5000);
    make_file("a/b/two", 5000);
    make_file("a/b/small", 10);
    make_file("odd[1]", 5000);
    CLEANUP(freep)
    char *dir = path_of("a"), *glob = path_of("a/*/t*o"), *odd = path_of("odd[1]"),
         *link = path_of("a/link"), *one = path_of("a/one"), *fifo = path_of("a/fifo"),
         *twin = path_of("a/twin"), *missing = path_of("missing");
    assert_int_equal(symlink("/", link), 0); // never followed
    assert_int_equal(mkfifo(fifo, 0644), 0);
    assert_int_equal(linkat(AT_FDCWD, one, AT_FDCWD, twin, 0), 0);
    char *paths[] = {missing, one, dir, glob, odd, fifo};
    struct file_set_options options = {
        .paths = paths, .n_paths = 6, .min_size_bytes = 100, .max_files = 100, .proc = "/proc"};
    struct file_set *set = scan(&options);
    assert_int_equal(file_set_files(set)->n, 3); // "one" and its hard link are one file
    assert_true(has(set, "a/one"));
    assert_true(has(set, "a/b/two"));
    assert_true(has(set, "odd[1]"));

    // A scan in slices finds nothing new.
    int r, n_slices = 0;
    while ((r = file_set_scan(set, 0)) == FILE_SET_E_AGAIN)
        n_slices++;
    assert_int_equal(r, 0);
    assert_true(n_slices > 5);
    assert_int_equal(file_set_files(set)->n, 3);
    file_set_free(set);

    options.max_files = 2;
    set = scan(&options);
    assert_int_equal(file_set_files(set)->n, 2);
    file_set_free(set);
}

static void count_forgotten(void *userdata, struct residency_file *file)
{
    (void)file;
    ++*(int *)userdata;
}

static void deletion_and_replacement_are_noticed(void **state)
{
    (void)state;
    make_dir("d");
    make_file("d/stays", 5000);
    make_file("d/goes", 5000);
    make_file("d/replaced", 5000);
    CLEANUP(freep)
    char *dir = path_of("d"), *goes = path_of("d/goes"), *replaced = path_of("d/replaced"),
         *fresh = path_of("d/fresh");
    char *paths[] = {dir};
    struct file_set_options options = {
        .paths = paths, .n_paths = 1, .max_files = 100, .proc = "/proc"};
    struct file_set *set = scan(&options);
    assert_int_equal(file_set_files(set)->n, 3);
    uint32_t old_id = 0;
    vec_foreach(file_set_files(set), file)
        if (str_eq((*file)->path, replaced))
            old_id = (*file)->id;

    assert_int_equal(unlink(goes), 0);
    make_file("d/fresh", 6000);
    assert_int_equal(rename(fresh, replaced), 0);
    scan_whole(set);
    int n_forgotten = 0;
    file_set_sweep(set, count_forgotten, &n_forgotten);
    assert_int_equal(n_forgotten, 2);
    assert_int_equal(file_set_files(set)->n, 2);
    vec_foreach(file_set_files(set), file) {
        int fd;
        if (str_eq((*file)->path, replaced))
            assert_int_not_equal((*file)->id, old_id);
        assert_int_equal(file_set_acquire(set, *file, &fd), 0);
        file_set_release(set, *file, fd);
    }
    file_set_free(set);
}

static void make_process(int pid, const char *argv0, const char *maps)
{
    char name[64];
    snprintf(name, sizeof(name), "proc/%d", pid);
    make_dir(name);
    snprintf(name, sizeof(name), "proc/%d/cmdline", pid);
    write_text(name, argv0, strlen(argv0) + 1);
    snprintf(name, sizeof(name), "proc/%d/maps", pid);
    write_text(name, maps, strlen(maps));
    snprintf(name, sizeof(name), "proc/%d/map_files", pid);
    make_dir(name);
}

static void make_map_file(int pid, const char *range, const char *target)
{
    char name[96];
    snprintf(name, sizeof(name), "proc/%d/map_files/%s", pid, range);
    CLEANUP(freep) char *link = path_of(name);
    assert_int_equal(symlink(target, link), 0);
}

static void processes_lead_to_mapped_files(void **state)
{
    (void)state;
    make_dir("proc");
    make_dir("m");
    make_file("m/lib with blanks.so", 5000);
    make_file("m/other.so", 5000);
    struct stat lib, other;
    CLEANUP(freep)
    char *lib_path = path_of("m/lib with blanks.so"), *other_path = path_of("m/other.so"),
         *proc = path_of("proc");
    assert_int_equal(stat(lib_path, &lib), 0);
    assert_int_equal(stat(other_path, &other), 0);
    char maps[4 * PATH_MAX];
    snprintf(maps, sizeof(maps),
             "00400000-00401000 r-xp 00000000 %02x:%02x %lu    %.2000s\n"
             "00401000-00402000 r--p 00001000 %02x:%02x %lu    %.2000s\n"
             "00500000-00501000 rw-p 00000000 00:00 0          [heap]\n"
             "not a line\n"
             "00600000-00601000 r--s 00000000 %02x:%02x %lu    %.2000s\n",
             major(lib.st_dev), minor(lib.st_dev), lib.st_ino, lib_path, major(lib.st_dev),
             minor(lib.st_dev), lib.st_ino, lib_path, major(other.st_dev), minor(other.st_dev),
             other.st_ino + 1000, other_path); // a mapping that has ended meanwhile
    make_process(10, "/usr/bin/server", maps);
    make_map_file(10, "400000-401000", lib_path);
    snprintf(maps, sizeof(maps), "00600000-00601000 r--s 00000000 %02x:%02x %lu    %.2000s\n",
             major(other.st_dev), minor(other.st_dev), other.st_ino, other_path);
    make_process(11, "worker", maps);
    make_map_file(11, "600000-601000", other_path);

    char *patterns[] = {"serv*"};
    struct file_set_options options = {
        .cmdlines = patterns, .n_cmdlines = 1, .max_files = 100, .proc = proc};
    struct file_set *set = scan(&options);
    assert_int_equal(file_set_files(set)->n, 1);
    assert_true(has(set, "m/lib with blanks.so"));
    assert_true(file_set_files(set)->items[0]->by_process);
    file_set_free(set);

    const int32_t pids[] = {11, 12};
    options = (struct file_set_options){.pids = pids, .n_pids = 2, .max_files = 100, .proc = proc};
    set = scan(&options);
    assert_int_equal(file_set_files(set)->n, 1);
    assert_true(has(set, "m/other.so"));

    // When the process ends, its file leaves the set.
    CLEANUP(freep) char *gone = path_of("proc/11/maps");
    assert_int_equal(unlink(gone), 0);
    scan_whole(set);
    assert_true(file_set_files(set)->items[0]->gone);
    file_set_free(set);
}

static int look_without_descriptors(char *proc, char *link)
{
    const int32_t pids[] = {13};
    struct file_set_options options = {.pids = pids, .n_pids = 1, .max_files = 9, .proc = proc};
    struct file_set *set;
    int fd;
    // The set leaves 648 descriptors to the rest of the program, and to its scans.
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){648, 648}) < 0 ||
        file_set_new(&options, &set, NULL) < 0 || file_set_scan(set, NSEC_MAX) != 0)
        return 1;
    if (file_set_files(set)->n != 1 || file_set_files(set)->items[0]->fd != -1)
        return 2;
    const struct residency_file *file = file_set_files(set)->items[0];
    if (file_set_acquire(set, file, &fd) != 0)
        return 3;
    file_set_release(set, file, fd);
    if (unlink(link) < 0 || file_set_acquire(set, file, &fd) != -ENOENT)
        return 4;
    file_set_free(set);
    return 0;
}

static void mappings_are_opened_for_each_look(void **state)
{
    (void)state;
    make_dir("proc");
    make_file("mapped.so", 5000);
    CLEANUP(freep)
    char *file = path_of("mapped.so"), *proc = path_of("proc"),
         *link = path_of("proc/13/map_files/400000-401000");
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    char maps[200];
    snprintf(maps, sizeof(maps), "00400000-00401000 r-xp 00000000 %02x:%02x %lu    /elsewhere\n",
             major(st.st_dev), minor(st.st_dev), st.st_ino);
    make_process(13, "server", maps);
    make_map_file(13, "400000-401000", file);
    check_in_a_child(look_without_descriptors, proc, link);
}

// A process can have its file mounted anywhere, and thereby give its mapping any name.
static void the_name_of_a_mapping_must_lead_to_its_file(void **state)
{
    (void)state;
    struct stat st;
    int ends[2];
    char line[400], link[64];
    make_dir("proc");
    make_file("secret", 5000);
    CLEANUP(freep) char *path = path_of("secret"), *proc = path_of("proc");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0); // a file that no namespace has mounted
    snprintf(link, sizeof(link), "/proc/self/fd/%d", ends[0]);
    const ino_t inodes[] = {st.st_ino, st.st_ino + 1};
    const unsigned minors[] = {minor(st.st_dev), minor(st.st_dev) + 1};
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof(line), "00400000-00401000 r-xp 00000000 %02x:%02x %lu    %.200s\n",
                 major(st.st_dev), minors[i / 2], inodes[i % 2], path);
        make_process(20 + i, "server", line);
        make_map_file(20 + i, "400000-401000", link);
        snprintf(line, sizeof(line), "proc/%d/mountinfo", 20 + i);
        write_text(line, "", 0);
        const int32_t pids[] = {20 + i};
        struct file_set_options options = {.pids = pids, .n_pids = 1, .max_files = 9, .proc = proc};
        struct file_set *set = scan(&options);
        assert_int_equal(file_set_files(set)->n, i == 0);
        file_set_free(set);
    }
    close(ends[0]);
    close(ends[1]);
}

// A stranger can give a file an inode number whose key in the set's map is that of another file.
static void files_with_equal_keys_are_told_apart(void **state)
{
    (void)state;
    struct stat st;
    char maps[400];
    make_dir("proc");
    make_file("victim", 5000);
    make_file("other", 5000);
    CLEANUP(freep)
    char *victim = path_of("victim"), *other = path_of("other"), *proc = path_of("proc");
    assert_int_equal(stat(victim, &st), 0);
    const uint64_t inode = st.st_ino ^ hash_u64(st.st_dev) ^ hash_u64(makedev(7, 7));
    snprintf(maps, sizeof(maps), "00400000-00401000 r-xp 00000000 %02x:%02x %lu    /victim\n",
             major(st.st_dev), minor(st.st_dev), st.st_ino);
    make_process(10, "server", maps);
    make_map_file(10, "400000-401000", victim);
    snprintf(maps, sizeof(maps), "00400000-00401000 r-xp 00000000 07:07 %llu    /other\n",
             (unsigned long long)inode);
    make_process(11, "server", maps);
    make_map_file(11, "400000-401000", other);
    const int32_t pids[] = {10, 11, 10};
    struct file_set_options options = {.pids = pids, .n_pids = 3, .max_files = 9, .proc = proc};
    struct file_set *set = scan(&options);
    assert_int_equal(file_set_files(set)->n, 2);
    vec_foreach(file_set_files(set), file)
        assert_int_equal((*file)->mapped.pid, (*file)->inode == st.st_ino ? 10 : 11);
    file_set_free(set);
}

// While a file of the set is known by its number, no scan opens the file.
static void known_files_stay_known_when_others_go(void **state)
{
    (void)state;
    char maps[4 * PATH_MAX], name[96], range[32];
    size_t n = 0;
    make_dir("proc");
    make_dir("proc/10");
    make_dir("proc/10/map_files");
    for (int i = 0; i < 4; i++) {
        struct stat st;
        snprintf(name, sizeof(name), "lib%d.so", i);
        make_file(name, 5000);
        CLEANUP(freep) char *path = path_of(name);
        assert_int_equal(stat(path, &st), 0);
        n += (size_t)snprintf(maps + n, sizeof(maps) - n,
                              "%d0000-%d1000 r-xp 00000000 %02x:%02x %lu    %.2000s\n", i + 1,
                              i + 1, major(st.st_dev), minor(st.st_dev), st.st_ino, path);
        snprintf(range, sizeof(range), "%d0000-%d1000", i + 1, i + 1);
        make_map_file(10, range, path);
    }
    CLEANUP(freep) char *proc = path_of("proc");
    write_text("proc/10/maps", maps, n);
    const int32_t pids[] = {10};
    struct file_set_options options = {.pids = pids, .n_pids = 1, .max_files = 9, .proc = proc};
    struct file_set *set = scan(&options);
    assert_int_equal(file_set_files(set)->n, 4);
    write_text("proc/10/maps", maps, (size_t)(strchr(strchr(maps, '\n') + 1, '\n') + 1 - maps));
    scan_whole(set);
    file_set_sweep(set, NULL, NULL);
    assert_int_equal(file_set_files(set)->n, 2);
    for (int i = 0; i < 4; i++) { // no file can be opened now
        snprintf(name, sizeof(name), "proc/10/map_files/%d0000-%d1000", i + 1, i + 1);
        CLEANUP(freep) char *link = path_of(name);
        assert_int_equal(unlink(link), 0);
    }
    write_text("proc/10/maps", maps, n);
    scan_whole(set);
    assert_true(has(set, "lib0.so"));
    assert_true(has(set, "lib1.so"));
    assert_int_equal(file_set_files(set)->n, 2);
    file_set_free(set);
}

static bool lease_ends(void)
{
    sigset_t io;
    sigemptyset(&io);
    sigaddset(&io, SIGIO);
    return sigtimedwait(&io, NULL, &(struct timespec){0}) == SIGIO;
}

// Returns the number of the comparison that failed, or 0; or -1 if this user or file system has no
// leases.
static int scan_leased_file(char *path, char *unused)
{
    (void)unused;
    sigset_t io;
    struct file_set *set;
    struct requester stranger = {.is_limited = true, .uid = geteuid() + 1, .gid = getegid() + 1};
    struct file_set_options options = {
        .paths = &path, .n_paths = 1, .max_files = 9, .proc = "/proc", .requester = &stranger};
    sigemptyset(&io);
    sigaddset(&io, SIGIO);
    // No file stays open: each look opens the file.
    if (sigprocmask(SIG_BLOCK, &io, NULL) < 0 ||
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){648, 648}) < 0 ||
        file_set_new(&options, &set, NULL) < 0 || file_set_scan(set, NSEC_MAX) != 0 ||
        file_set_files(set)->n != 1 || file_set_files(set)->items[0]->fd != -1)
        return 1;
    int fd = open(path, O_RDWR | O_CLOEXEC), looked;
    if (fchmod(fd, 0600) < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
        return -1;
    if (file_set_acquire(set, file_set_files(set)->items[0], &looked) != -ESTALE || lease_ends())
        return 2;
    file_set_free(set);
    if (file_set_new(&options, &set, NULL) < 0 || file_set_scan(set, NSEC_MAX) != 0 ||
        file_set_files(set)->n != 0 || lease_ends())
        return 3;
    file_set_free(set);
    if (fchmod(fd, 0644) < 0 || file_set_new(&options, &set, NULL) < 0 ||
        file_set_scan(set, NSEC_MAX) != 0 || !lease_ends()) // as for each reader
        return 4;
    return 0;
}

static void the_leases_of_closed_files_stay(void **state)
{
    (void)state;
    char folder[TEMP_FOLDER_MAX], path[PATH_MAX];
    temp_folder_make(folder);
    temp_file_write(folder, "file", "text", 4);
    snprintf(path, sizeof(path), "%s/file", folder);
    assert_int_equal(chmod(folder, 0755), 0);
    int r = check_in_a_child(scan_leased_file, path, NULL);
    assert_int_equal(temp_folder_remove(folder), 0);
    if (r < 0)
        skip_because("the file system of temporary files has no leases");
}

static int n_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

// A walk keeps a descriptor for each folder that it is in.
static void the_sets_of_a_user_walk_one_after_the_other(void **state)
{
    (void)state;
    enum { DEPTH = 60, N = 8 };
    char name[2 * DEPTH + 16] = "deep";
    make_dir(name);
    CLEANUP(freep) char *path = path_of(name);
    for (int i = 0; i < DEPTH; i++) {
        strcat(name, "/d");
        make_dir(name);
    }
    strcat(name, "/file");
    make_file(name, 5000);
    struct requester member = {.is_limited = true, .uid = geteuid(), .gid = getegid()};
    struct file_set_options options = {
        .paths = &path, .n_paths = 1, .max_files = 9, .proc = "/proc", .requester = &member};
    struct file_set *sets[N], *own;
    for (size_t i = 0; i < N; i++)
        assert_int_equal(file_set_new(&options, &sets[i], NULL), 0);
    options.requester = NULL;
    assert_int_equal(file_set_new(&options, &own, NULL), 0);
    assert_int_equal(file_set_peers(sets[0]), N);
    assert_int_equal(file_set_peers(own), 1);
    const int before = n_descriptors();
    int most = 0, n_left = N;
    bool done[N] = {0};
    for (nsec_t end = nsec_now(CLOCK_MONOTONIC) + 60 * NSEC_PER_SEC;
         n_left > 0 && nsec_now(CLOCK_MONOTONIC) < end;) {
        for (size_t i = 0; i < N; i++) {
            if (done[i] || file_set_scan(sets[i], 0) == FILE_SET_E_AGAIN)
                continue;
            done[i] = true;
            n_left--;
        }
        int now = n_descriptors();
        most = now > most ? now : most;
    }
    assert_int_equal(n_left, 0);
    assert_in_range(most - before, DEPTH, 2 * DEPTH);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(file_set_files(sets[i])->n, 1);
        file_set_free(sets[i]);
    }
    file_set_free(own);
}

static size_t n_open(const struct file_set *set)
{
    size_t n = 0;
    vec_foreach(file_set_files(set), file)
        n += (*file)->fd >= 0;
    return n;
}

static int share_descriptors(char *path, char *unused)
{
    (void)unused;
    struct requester member = {.is_limited = true, .uid = geteuid(), .gid = getegid()};
    struct file_set_options options = {
        .paths = &path, .n_paths = 1, .max_files = 99, .proc = "/proc"};
    // The program, three sets, three walks, and files need these.
    const rlim_t limit = 512 + 3 * 8 + 3 * 128 + 8;
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit, limit}) < 0)
        return 1;
    struct file_set *sets[3];
    for (size_t i = 0; i < 3; i++) {
        options.requester = i == 0 ? &member : NULL;
        file_set_new(&options, &sets[i], NULL);
    }
    for (size_t i = 0; i < 3; i++)
        if (file_set_scan(sets[i], NSEC_MAX) != 0 || file_set_files(sets[i])->n != 12)
            return 2;
    if (n_open(sets[0]) != 2 || n_open(sets[1]) != 6 || n_open(sets[2]) != 0)
        return 3;
    file_set_free(sets[1]);
    sets[1] = scan(&options);
    return n_open(sets[1]) != 6 ? 4 : 0;
}

// The files of the first set take all descriptors that a second set needs.
static int give_descriptors_back(char *path, char *unused)
{
    (void)unused;
    struct file_set_options options = {
        .paths = &path, .n_paths = 1, .max_files = 99, .proc = "/proc"};
    const rlim_t limit = 512 + 2 * 8 + 2 * 128 + 8;
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit, limit}) < 0)
        return 1;
    struct file_set *first = scan(&options), *second;
    if (n_open(first) != 12 || file_set_new(&options, &second, NULL) < 0)
        return 2;
    file_set_sweep(first, NULL, NULL);
    if (n_open(first) != 8)
        return 3;
    vec_foreach(file_set_files(first), file) {
        int fd;
        if (file_set_acquire(first, *file, &fd) < 0)
            return 4;
        file_set_release(first, *file, fd);
    }
    file_set_free(second);
    file_set_free(first);
    return 0;
}

static void sets_share_the_descriptors(void **state)
{
    (void)state;
    char name[16];
    make_dir("many");
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "many/%d", i);
        make_file(name, 5000);
    }
    CLEANUP(freep) char *path = path_of("many");
    check_in_a_child(share_descriptors, path, NULL);
    check_in_a_child(give_descriptors_back, path, NULL);
}

static void own_mapped_files_are_found(void **state)
{
    (void)state;
    const int32_t pids[] = {getpid()};
    struct file_set_options options = {
        .pids = pids, .n_pids = 1, .max_files = 100, .proc = "/proc"};
    struct file_set *set = scan(&options);
    bool found = false;
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = 0;
    vec_foreach(file_set_files(set), file)
        found |= str_eq((*file)->path, self);
    assert_true(found);
    file_set_free(set);
}

static void maps_lines_are_parsed_or_refused(void **state)
{
    (void)state;
    struct mapping m;
    char path[64];
    static const char good[] = "7f00-7f10 r-xs 0000a000 103:0a 18446744073709551615   /a\\012b";
    assert_true(mapping_parse(good, strlen(good), &m));
    assert_int_equal(m.start, 0x7f00);
    assert_int_equal(m.end, 0x7f10);
    assert_int_equal(m.offset, 0xa000);
    assert_int_equal(m.major, 0x103);
    assert_int_equal(m.minor, 10);
    assert_true(m.inode == UINT64_MAX);
    assert_string_equal(m.permissions, "r-xs");
    assert_true(mapping_get_path(&m, path, sizeof(path)));
    assert_string_equal(path, "/a\nb");
    assert_false(mapping_get_path(&m, path, 4));
    static const char *const bad[] = {"",
                                      "7f00",
                                      "7f00-",
                                      "7f00-7f10",
                                      "7f10-7f00 r-xp 0 0:0 1 /a",
                                      "7f00-7f10 r-x",
                                      "7f00-7f10 r-xp g 0:0 1",
                                      "7f00-7f10 r-xp 0 0 1",
                                      "7f00-7f10 r-xp 0 0:0 ",
                                      "10000000000000000-7f10 r-xp 0 0:0 1",
                                      "1-2 r-xp 0 100000000:0 1"};
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        assert_false(mapping_parse(bad[i], strlen(bad[i]), &m));
}

static void overlong_lines_are_passed_over(void **state)
{
    (void)state;
    make_dir("long");
    make_dir("long/1");
    char *text = malloc(2 * LINE_READER_SIZE + 100);
    assert_non_null(text);
    memset(text, 'x', 2 * LINE_READER_SIZE);
    strcpy(text + 2 * LINE_READER_SIZE, "\n1-2 r--p 0 0:0 7 /last");
    write_text("long/1/maps", text, strlen(text));
    free(text);
    CLEANUP(freep) char *proc = path_of("long");
    static struct line_reader reader;
    struct mapping m;
    assert_int_equal(maps_open(&reader, proc, 1), 0);
    assert_int_equal(maps_next(&reader, &m), 1);
    assert_int_equal(m.inode, 7);
    assert_int_equal(maps_next(&reader, &m), 0);
    line_reader_close(&reader);
    assert_int_equal(maps_open(&reader, proc, 2), -ENOENT);
}

// The subordinate uids of a user do not multiply the limits.
static void users_who_pay_together_share(void **state)
{
    (void)state;
    const struct requester owner = {.is_limited = true, .uid = 1000, .payer = 1000},
                           subordinate = {.is_limited = true, .uid = 100001, .payer = 1000},
                           other = {.is_limited = true, .uid = 1001, .payer = 1001};
    struct set_user *users[] = {set_user_join(&owner), set_user_join(&subordinate),
                                set_user_join(&other), set_user_join(NULL)};
    assert_ptr_equal(users[0], users[1]);
    assert_int_equal(users[0]->n_sets, 2);
    assert_ptr_not_equal(users[0], users[2]);
    assert_ptr_not_equal(users[0], users[3]);
    assert_ptr_not_equal(users[2], users[3]);
    for (size_t i = 0; i < ELEMENTS(users); i++)
        set_user_leave(users[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(trees_globs_and_names_give_each_file_once, setup, teardown),
        cmocka_unit_test_setup_teardown(deletion_and_replacement_are_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(processes_lead_to_mapped_files, setup, teardown),
        cmocka_unit_test_setup_teardown(mappings_are_opened_for_each_look, setup, teardown),
        cmocka_unit_test_setup_teardown(the_name_of_a_mapping_must_lead_to_its_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(files_with_equal_keys_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(known_files_stay_known_when_others_go, setup, teardown),
        cmocka_unit_test(the_leases_of_closed_files_stay),
        cmocka_unit_test(users_who_pay_together_share),
        cmocka_unit_test_setup_teardown(the_sets_of_a_user_walk_one_after_the_other, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(sets_share_the_descriptors, setup, teardown),
        cmocka_unit_test(own_mapped_files_are_found),
        cmocka_unit_test(maps_lines_are_parsed_or_refused),
        cmocka_unit_test_setup_teardown(overlong_lines_are_passed_over, setup, teardown),
    };
    return cmocka_run_group_tests_name("residency_files", tests, NULL, NULL);
}
