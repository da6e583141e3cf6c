// SPDX-License-Identifier: Apache-2.0
//
// ETW events of files and disks. A file operation begins with an event of its kind and ends with
// the EndOperation event of the same request (IRP). Operations of a thread may overlap. If one of
// the two events is missing, the slice is an instant, and its arg Missing Event names the missing
// event. A disk operation has a single event, at its end.
#include "common/elements.h"
#include "converter/import/etw/etw.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define OPCODE_FIRST      64
#define DISK_OPCODE_FIRST 10
#define FILE_ARGS_MAX     16
#define CLASS_ALLOCATION  19
#define CLASS_DISPOSITION 13
#define CLASS_END_OF_FILE 20

static const char *const opcode_names[] = {
    "CreateFile",
    "Cleanup",
    "Close",
    "ReadFile",
    "WriteFile",
    "SetInformation",
    "DeleteFile",
    "RenameFile",
    "DirectoryEnumeration",
    "Flush",
    "QueryFileInformation",
    "FilesystemControlEvent",
    "EndOperation",
    "DirectoryNotification",
    NULL,
    "DeletePath",
    "RenamePath",
    NULL,
    NULL,
    "FltRead",
    "FltWrite",
    "FltSetInfo",
    "FltQueryInfo",
};

// FILE_INFORMATION_CLASS of Windows.
static const char *const class_names[] = {
    [1] = "FileDirectoryInformation",
    [2] = "FileFullDirectoryInformation",
    [3] = "FileBothDirectoryInformation",
    [4] = "FileBasicInformation",
    [5] = "FileStandardInformation",
    [6] = "FileInternalInformation",
    [7] = "FileEaInformation",
    [8] = "FileAccessInformation",
    [9] = "FileNameInformation",
    [10] = "FileRenameInformation",
    [11] = "FileLinkInformation",
    [12] = "FileNamesInformation",
    [13] = "FileDispositionInformation",
    [14] = "FilePositionInformation",
    [15] = "FileFullEaInformation",
    [16] = "FileModeInformation",
    [17] = "FileAlignmentInformation",
    [18] = "FileAllInformation",
    [19] = "FileAllocationInformation",
    [20] = "FileEndOfFileInformation",
    [21] = "FileAlternateNameInformation",
    [22] = "FileStreamInformation",
    [23] = "FilePipeInformation",
    [24] = "FilePipeLocalInformation",
    [25] = "FilePipeRemoteInformation",
    [26] = "FileMailslotQueryInformation",
    [27] = "FileMailslotSetInformation",
    [28] = "FileCompressionInformation",
    [29] = "FileObjectIdInformation",
    [30] = "FileCompletionInformation",
    [31] = "FileMoveClusterInformation",
    [32] = "FileQuotaInformation",
    [33] = "FileReparsePointInformation",
    [34] = "FileNetworkOpenInformation",
    [35] = "FileAttributeTagInformation",
    [36] = "FileTrackingInformation",
    [37] = "FileIdBothDirectoryInformation",
    [38] = "FileIdFullDirectoryInformation",
    [39] = "FileValidDataLengthInformation",
    [40] = "FileShortNameInformation",
    [41] = "FileIoCompletionNotificationInformation",
    [42] = "FileIoStatusBlockRangeInformation",
    [43] = "FileIoPriorityHintInformation",
    [44] = "FileSfioReserveInformation",
    [45] = "FileSfioVolumeInformation",
    [46] = "FileHardLinkInformation",
    [47] = "FileProcessIdsUsingFileInformation",
    [48] = "FileNormalizedNameInformation",
    [49] = "FileNetworkPhysicalNameInformation",
    [50] = "FileIdGlobalTxDirectoryInformation",
    [51] = "FileIsRemoteDeviceInformation",
    [52] = "FileUnusedInformation",
    [53] = "FileNumaNodeInformation",
    [54] = "FileStandardLinkInformation",
    [55] = "FileRemoteProtocolInformation",
    [56] = "FileRenameInformationBypassAccessCheck",
    [57] = "FileLinkInformationBypassAccessCheck",
    [58] = "FileVolumeNameInformation",
    [59] = "FileIdInformation",
    [60] = "FileIdExtdDirectoryInformation",
    [61] = "FileReplaceCompletionInformation",
    [62] = "FileHardLinkFullIdInformation",
    [63] = "FileIdExtdBothDirectoryInformation",
    [64] = "FileDispositionInformationEx",
    [65] = "FileRenameInformationEx",
    [66] = "FileRenameInformationExBypassAccessCheck",
    [67] = "FileDesiredStorageClassInformation",
    [68] = "FileStatInformation",
    [69] = "FileMemoryPartitionInformation",
    [70] = "FileStatLxInformation",
    [71] = "FileCaseSensitiveInformation",
    [72] = "FileLinkInformationEx",
    [73] = "FileLinkInformationExBypassAccessCheck",
    [74] = "FileStorageReserveIdInformation",
    [75] = "FileCaseSensitiveInformationForceAccessCheck",
    [76] = "FileKnownFolderInformation",
    [77] = "FileStatBasicInformation",
    [78] = "FileId64ExtdDirectoryInformation",
    [79] = "FileId64ExtdBothDirectoryInformation",
    [80] = "FileIdAllExtdDirectoryInformation",
    [81] = "FileIdAllExtdBothDirectoryInformation",
};

static const char *opcode_name(uint64_t opcode)
{
    opcode -= OPCODE_FIRST;
    return opcode < ELEMENTS(opcode_names) ? opcode_names[opcode] : NULL;
}

enum arg_form { FORM_POINTER, FORM_NUMBER, FORM_SIGNED, FORM_TEXT, FORM_CLASS, FORM_EXTRA };

struct arg_of {
    uint32_t number; // of the event's field; 0 ends a list
    const char *key;
    enum arg_form form;
};

struct kind {
    uint32_t event;  // field of EtwTraceEvent
    uint32_t opcode; // field with the opcode; 0: none
    const char *name;
    struct arg_of args[12];
};

#define ARG(message, field, key, form)                                                             \
    {                                                                                              \
        PB_##message##EtwEvent_##field, key, FORM_##form                                           \
    }
// The first args of most file operations.
#define REQUEST(message)                                                                           \
    ARG(message, irp_ptr, "I/O Request Packet", POINTER),                                          \
        ARG(message, file_object, "File Object", POINTER)
#define KEY(message) ARG(message, file_key, "File Key", POINTER)
#define KIND(event, opcode, name, ...)                                                             \
    {                                                                                              \
        PB_EtwTraceEvent_##event, opcode, name,                                                    \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const struct kind kinds[] = {
    KIND(file_io_create, 0, "CreateFile", REQUEST(FileIoCreate),
         ARG(FileIoCreate, ttid, "Thread ID", NUMBER),
         ARG(FileIoCreate, create_options, "Create Options", POINTER),
         ARG(FileIoCreate, file_attributes, "File Attributes", POINTER),
         ARG(FileIoCreate, share_access, "Share Access", POINTER),
         ARG(FileIoCreate, open_path, "Open Path", TEXT)),
    KIND(file_io_dir_enum, PB_FileIoDirEnumEtwEvent_opcode, "DirEnum", REQUEST(FileIoDirEnum),
         KEY(FileIoDirEnum), ARG(FileIoDirEnum, ttid, "Thread ID", NUMBER),
         ARG(FileIoDirEnum, info_class, "Info Class", CLASS),
         ARG(FileIoDirEnum, file_index, "File Index", NUMBER),
         ARG(FileIoDirEnum, file_name, "Enumeration Path", TEXT)),
    KIND(file_io_info, PB_FileIoInfoEtwEvent_opcode, "Info", REQUEST(FileIoInfo), KEY(FileIoInfo),
         ARG(FileIoInfo, extra_info, "Extra Info", EXTRA),
         ARG(FileIoInfo, ttid, "Thread ID", NUMBER),
         ARG(FileIoInfo, info_class, "Info Class", CLASS)),
    KIND(file_io_read_write, PB_FileIoReadWriteEtwEvent_opcode, "ReadOrWrite",
         ARG(FileIoReadWrite, irp_ptr, "I/O Request Packet", POINTER),
         ARG(FileIoReadWrite, offset, "Offset", NUMBER),
         ARG(FileIoReadWrite, file_object, "File Object", POINTER), KEY(FileIoReadWrite),
         ARG(FileIoReadWrite, ttid, "Thread ID", NUMBER),
         ARG(FileIoReadWrite, io_size, "I/O Size", NUMBER),
         ARG(FileIoReadWrite, io_flags, "I/O Flags", POINTER)),
    KIND(file_io_simple_op, PB_FileIoSimpleOpEtwEvent_opcode, "SimpleOp", REQUEST(FileIoSimpleOp),
         KEY(FileIoSimpleOp), ARG(FileIoSimpleOp, ttid, "Thread ID", NUMBER)),
    KIND(file_io_path_operation, PB_FileIoPathOperationEtwEvent_opcode, "PathOperation",
         REQUEST(FileIoPathOperation), KEY(FileIoPathOperation),
         ARG(FileIoPathOperation, extra_info, "Extra Info", NUMBER),
         ARG(FileIoPathOperation, ttid, "Thread ID", NUMBER),
         ARG(FileIoPathOperation, info_class, "Info Class", CLASS),
         ARG(FileIoPathOperation, file_name, "File Name", TEXT)),
    KIND(file_io_op_end, 0, "EndOperation", ARG(FileIoOpEnd, extra_info, "Extra Info", NUMBER),
         ARG(FileIoOpEnd, nt_status, "NT Status", POINTER)),
    KIND(disk_io, PB_DiskIoEtwEvent_opcode, NULL, ARG(DiskIo, irp_ptr, "Irp Ptr", POINTER),
         ARG(DiskIo, disk_number, "Disk Number", NUMBER),
         ARG(DiskIo, irp_flags, "Irp Flags", POINTER),
         ARG(DiskIo, transfer_size, "Transfer Size", NUMBER),
         ARG(DiskIo, byte_offset, "Byte Offset", SIGNED),
         ARG(DiskIo, file_object, "File Object", POINTER),
         ARG(DiskIo, response_time, "Response Time (microseconds)", SIGNED),
         ARG(DiskIo, issuing_thread_id, "Issuing Thread ID", NUMBER)),
};

// Room for the fields of any message of the table.
union io_fields {
    union message_FileIoCreateEtwEvent create;
    union message_FileIoDirEnumEtwEvent dir_enum;
    union message_FileIoInfoEtwEvent info;
    union message_FileIoReadWriteEtwEvent read_write;
    union message_FileIoSimpleOpEtwEvent simple_op;
    union message_FileIoOpEndEtwEvent op_end;
    union message_FileIoPathOperationEtwEvent path_operation;
    union message_DiskIoEtwEvent disk_io;
};

// A decoded event and its args.
struct io_event {
    struct import *im;
    const struct kind *kind;
    int64_t ts, utid;
    struct wire_field fields[sizeof(union io_fields) / sizeof(struct wire_field)];
    struct arg args[FILE_ARGS_MAX];
    size_t n_args;
    struct slice_name name;
};

static uint64_t info_class(const struct io_event *event)
{
    for (const struct arg_of *arg = event->kind->args; arg->number; arg++)
        if (arg->form == FORM_CLASS)
            return field_u64(&event->fields[arg->number]);
    return 0;
}

static struct arg class_arg(const char *key, uint64_t number)
{
    const char *name = number < ELEMENTS(class_names) ? class_names[number] : NULL;
    return name ? arg_text(key, name, strlen(name)) : arg_uint(key, number);
}

static void args_make(struct io_event *event)
{
    for (const struct arg_of *arg = event->kind->args; arg->number; arg++) {
        const struct wire_field *field = &event->fields[arg->number];
        if (!field_present(field))
            continue;
        struct arg made = arg_uint(arg->key, field_u64(field));
        uint64_t class = arg->form == FORM_EXTRA ? info_class(event) : 0;
        if (arg->form == FORM_POINTER)
            made.type = ARG_POINTER;
        else if (arg->form == FORM_SIGNED)
            made.type = ARG_INT;
        else if (arg->form == FORM_TEXT)
            made = arg_name(arg->key, field_name(field));
        else if (arg->form == FORM_CLASS)
            made = class_arg(arg->key, (uint32_t)field_u64(field));
        else if (class == CLASS_DISPOSITION)
            made.key = "Disposition";
        else if (class == CLASS_END_OF_FILE || class == CLASS_ALLOCATION)
            made.key = "File Size";
        event->args[event->n_args++] = made;
    }
}

static void missing_add(struct io_event *event, const char *what)
{
    event->args[event->n_args++] = arg_text("Missing Event", what, strlen(what));
}

static struct track_spec tracks_of(const char *type, int64_t utid)
{
    return (struct track_spec){.type = type, .dimensions = {dimension_int("utid", utid)}};
}

static struct slice_spec slice_of(const struct io_event *event)
{
    return (struct slice_spec){
        .ts = event->ts, .name = event->name, .args = event->args, .n_args = event->n_args};
}

static void moment_write(struct io_event *event)
{
    struct track_spec tracks = tracks_of("etw_fileio", event->utid);
    struct slice_spec spec = slice_of(event);
    spec.track = async_track_span(&event->im->async_tracks, &tracks, event->ts, 0);
    slice_add(&event->im->slices, &spec);
}

// Ends the operation of `request` at `ts`.
static void started_end(struct import *im, struct etw *etw, uint64_t request, int64_t ts,
                        const struct arg *args, size_t n_args)
{
    uint64_t index = *map64_find(&etw->running, request);
    struct etw_started *started = &etw->started.items[index];
    struct track_spec tracks = tracks_of("etw_fileio", started->utid);
    struct slice_spec spec = {.ts = ts,
                              .track =
                                  async_track_end(&im->async_tracks, &tracks, (int64_t)request),
                              .name = started->name,
                              .args = args,
                              .n_args = n_args};
    slice_end(&im->slices, &spec);
    map64_remove(&etw->running, request);
    started->is_over = true;
    started->next_free = etw->first_free;
    etw->first_free = index + 1;
}

// Ends an operation whose end event is missing.
static void started_drop(struct import *im, struct etw *etw, uint64_t request)
{
    struct arg missing = arg_of_text("Missing Event", TEXT("End"));
    int64_t ts = etw->started.items[*map64_find(&etw->running, request)].ts;
    started_end(im, etw, request, ts, &missing, 1);
}

static void started_add(struct import *im, struct etw *etw, uint64_t request,
                        struct etw_started started)
{
    uint64_t index = etw->first_free ? etw->first_free - 1 : etw->started.n;
    if (etw->first_free) {
        etw->first_free = etw->started.items[index].next_free;
        etw->started.items[index] = started;
    } else {
        import_fail(im, etw_started_vec_push(&etw->started, started));
    }
    import_fail(im, map64_set(&etw->running, request, index));
}

static void file_begin(struct io_event *event, struct etw *etw, const struct wire_field *request)
{
    struct import *im = event->im;
    if (!field_present(request)) {
        moment_write(event);
        return;
    }
    if (map64_find(&etw->running, field_u64(request)))
        started_drop(im, etw, field_u64(request));
    struct track_spec tracks = tracks_of("etw_fileio", event->utid);
    struct slice_spec spec = slice_of(event);
    spec.track = async_track_begin(&im->async_tracks, &tracks, field_i64(request), false);
    slice_begin(&im->slices, &spec);
    started_add(im, etw, field_u64(request),
                (struct etw_started){.name = event->name,
                                     .ts = event->ts,
                                     .utid = event->utid,
                                     .request = field_u64(request)});
}

static void file_end(struct io_event *event, struct etw *etw, const struct wire_field *request)
{
    if (field_present(request) && map64_find(&etw->running, field_u64(request))) {
        started_end(event->im, etw, field_u64(request), event->ts, event->args, event->n_args);
        return;
    }
    if (field_present(request))
        missing_add(event, "Start");
    moment_write(event);
}

static void disk_write(struct io_event *event)
{
    static const char *const names[] = {
        "DiskRead", "DiskWrite", "DiskReadInit", "DiskWriteInit", "DiskFlush", "DiskFlushInit",
    };
    const struct wire_field *field = &event->fields[event->kind->opcode];
    uint64_t opcode = field_u64(field) - DISK_OPCODE_FIRST;
    if (!field_present(field))
        return;
    if (opcode >= ELEMENTS(names)) {
        stats_add(&event->im->stats, STAT_missing_disk_io_event_name, 1);
        return;
    }
    struct track_spec tracks = tracks_of("etw_diskio", event->utid);
    struct slice_spec spec = slice_of(event);
    spec.name = slice_name(names[opcode]);
    spec.category = slice_name("ETW Disk I/O");
    spec.dur = field_i64(&event->fields[PB_DiskIoEtwEvent_response_time]);
    spec.track = async_track_span(&event->im->async_tracks, &tracks, event->ts, spec.dur);
    slice_add(&event->im->slices, &spec);
}

bool etw_io_handle(struct import *im, struct etw *etw, int64_t ts, uint32_t tid,
                   const struct wire_field *message)
{
    struct io_event event = {.im = im, .ts = ts};
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (kinds[i].event == message->number)
            event.kind = &kinds[i];
    if (!event.kind)
        return false;
    message_read(wire_sub(message), event.fields, ELEMENTS(event.fields));
    event.utid = processes_thread(&im->processes, tid);
    const char *name = event.kind->opcode && event.kind->name
                           ? opcode_name(field_u64(&event.fields[event.kind->opcode]))
                           : NULL;
    event.name = slice_name(name ? name : event.kind->name ? event.kind->name : "");
    args_make(&event);
    if (message->number == PB_EtwTraceEvent_disk_io)
        disk_write(&event);
    else if (message->number == PB_EtwTraceEvent_file_io_op_end)
        file_end(&event, etw, &event.fields[PB_FileIoOpEndEtwEvent_irp_ptr]);
    else
        file_begin(&event, etw, &event.fields[event.kind->args[0].number]);
    return true;
}

void etw_io_finish(struct import *im, struct etw *etw)
{
    vec_foreach(&etw->started, started) {
        if (!started->is_over)
            started_drop(im, etw, started->request);
    }
}
