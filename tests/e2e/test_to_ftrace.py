# SPDX-License-Identifier: Apache-2.0
"""to_ftrace(): kernel events as the lines of text that systrace has."""
import unittest

import lib
import test_functions


def system(release):
    return (f'packet {{ timestamp: 1 trusted_packet_sequence_id: 1 system_info {{ utsname '
            f'{{ sysname: "Linux" release: "{release}" }} }} }}\n')


def event(fields, pid=12, ts=74289018336, cpu=3, more=""):
    return (f"packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: {cpu} "
            f"event {{ timestamp: {ts} pid: {pid} {fields} }} {more} }} }}\n")


@lib.needs_program("protoc")
class Lines(test_functions.Case):
    def lines(self, *events, before=""):
        trace = self.made("lines", before + "".join(events))
        return [line for line, in self.rows(
            "SELECT to_ftrace(id) AS l FROM ftrace_event ORDER BY id", trace)]

    def args(self, fields, before=""):
        """The name of the event, and the text after the name."""
        line, = self.lines(event(fields), before=before)
        name, _, args = line.partition(".... 74.289018: ")[2].partition(":")
        return name, args

    def test_threads(self):
        tree = ('packet { timestamp: 1 trusted_packet_sequence_id: 1 process_tree { processes '
                '{ pid: 10 ppid: 1 cmdline: "app" } threads { tid: 12 tgid: 10 '
                'name: "a-very-long-name" } threads { tid: 1234567 tgid: 10 name: "w" } } }\n')
        mark = 'print { buf: "x" }'
        got = self.lines(event(mark), event(mark, pid=1234567, cpu=0, ts=999),
                         event(mark, pid=0, cpu=127), event(mark, pid=77), before=tree)
        self.assertEqual(
            got, ["               w-1234567 (   10) [000] .... 0.000000: tracing_mark_write: x",
                  "a_very_long_name-12    (   10) [003] .... 74.289018: tracing_mark_write: x",
                  "       <unknown>-77    (-----) [003] .... 74.289018: tracing_mark_write: x",
                  "          <idle>-0     (-----) [127] .... 74.289018: tracing_mark_write: x"])

    def test_states(self):
        switch = (
            "sched_switch {{ prev_comm: 'a' prev_pid: 12 prev_prio: 120 prev_state: {} "
            "next_comm: 'b' next_pid: 0 next_prio: 7 }}")
        text = (" prev_comm=a prev_pid=12 prev_prio=120 prev_state={} ==> next_comm=b next_pid=0 "
                "next_prio=7")
        for release, state, want in (("6.1.0-13", 0, "R"), ("6.1.0-13", 256, "R+"),
                                     ("6.1.0-13", 1, "S"), ("6.1.0-13", 3, "S|D"),
                                     ("6.1.0-13", 512, "?"),
                                     ("4.9.1", 256, "W"), ("4.9.1", 0x1000, "R+"),
                                     ("4.9.1", 0x402, "I")):
            self.assertEqual(self.args(switch.format(state), system(release)),
                             ("sched_switch", text.format(want)), (release, state))
        self.assertEqual(self.args("sched_switch { next_pid: 5 }")[1],
                         " prev_comm= prev_pid=0 prev_prio=0 prev_state=R ==> next_comm= "
                         "next_pid=5 next_prio=0")

    def test_forms(self):
        forms = (
            ("cgroup_attach_task { dst_root: 1 dst_id: 2 pid: 3 comm: 'foo' cname: 'bar' }",
             " dst_root=1 dst_id=2 cgroup=bar pid=3 comm=foo"),
            ("cgroup_attach_task { dst_root: 1 dst_id: 2 pid: 3 comm: 'foo' dst_level: 4 "
             "dst_path: 'bar' }",
             " dst_root=1 dst_id=2 dst_level=4 dst_path=bar pid=3 comm=foo"),
            ("sched_blocked_reason { pid: 5 caller: 255 io_wait: 1 }", " pid=5 iowait=1 caller=ff"),
            ("sched_wakeup { comm: 'x' pid: 7 prio: 100 target_cpu: 2 success: 1 }",
             " comm=x pid=7 prio=100 target_cpu=002"),
            ("clk_set_rate { name: 'core' rate: 1000 }", " core 1000"),
            ("clock_set_rate { name: 'c' state: 5 cpu_id: 1 }", " c state=5 cpu_id=1"),
            ("clock_enable { name: 'c' state: 1 cpu_id: 0 }", "c state=1 cpu_id=0"),
            ("binder_transaction { debug_id: -1 target_node: 2 to_proc: 3 to_thread: 4 reply: 1 "
             "code: 18 flags: 16 }",
             " transaction=4294967295 dest_node=2 dest_proc=3 dest_thread=4 reply=1 flags=0x10 "
             "code=0x12"),
            ("mm_filemap_add_to_page_cache { pfn: 9 i_ino: 255 index: 2 s_dev: 8388610 }",
             " dev 8:2 ino ff page=0000000000000000 pfn=9 ofs=8192"),
            ("irq_handler_exit { irq: 5 ret: 1 }", " irq=5 ret=handled"),
            ("irq_handler_exit { irq: 5 ret: 0 }", " irq=5 ret=unhandled"),
            ("softirq_entry { vec: 3 }", " vec=3 [action=NET_RX]"),
            ("softirq_exit { vec: 30 }", " vec=30 [action=30]"),
            ("i2c_read { adapter_nr: 1 msg_nr: 2 addr: 80 flags: 1 len: 3 }",
             " i2c-1 #2 a=050 f=0001 l=3"),
            ("i2c_write { adapter_nr: 1 msg_nr: 2 addr: 80 flags: 1 len: 2 buf: '\\001A' }",
             " i2c-1 #2 a=050 f=0001 l=2 [01-41]"),
            ("i2c_result { adapter_nr: 1 nr_msgs: 2 ret: -5 }", " i2c-1 n=2 ret=-5"),
            ("workqueue_execute_start { work: 4096 function: 48879 }",
             " work struct 1000: function beef"),
            ("tracing_mark_write { pid: 5 trace_name: 'n' trace_begin: 1 }", "B|5|n"),
            ("print { buf: 'two\\nlines\\n' }", " two\nlines"),
            ("cpu_frequency { state: 5 cpu_id: 1 }", " state=5 cpu_id=1"),
            ("ext4_sync_file_exit { dev: 1 ino: 2 ret: -3 }", " dev=1 ino=2 ret=-3"),
        )
        lines = self.lines(*(event(fields, ts=1000 + i) for i, (fields, _) in enumerate(forms)))
        for line, (fields, want) in zip(lines, forms, strict=True):
            self.assertEqual(line.partition(": ")[2].partition(":")[2], want, fields)

    def test_names_of_kernel_functions(self):
        symbols = (
            'packet { trusted_packet_sequence_id: 1 sequence_flags: 1 interned_data '
            '{ kernel_symbols { iid: 1 str: "filemap_fault" } } }\n')
        self.assertEqual(self.args("sched_blocked_reason { pid: 5 caller: 1 io_wait: 0 }",
                                   symbols)[1], " pid=5 iowait=0 caller=filemap_fault")

    def test_flags_of_the_page_allocator(self):
        begin = "mm_vmscan_direct_reclaim_begin {{ order: 2 gfp_flags: {} }}"
        for release, flags, want in (("6.1.0", 0x14000C0, "GFP_KERNEL"), ("6.1.0", 0, "GFP_NOWAIT"),
                                     ("6.1.0", 0xC0, "__GFP_IO|__GFP_FS"),
                                     ("6.1.0", 0x20000040, "__GFP_IO|0x20000000"),
                                     ("6.1.0", 0x20000000, "0x20000000"),
                                     ("4.4.0", 0x24000C0, "GFP_KERNEL"),
                                     ("4.4.0", 0xC0, "GFP_IO|0x80")):
            self.assertEqual(self.args(begin.format(flags), system(release))[1],
                             f" order=2 gfp_flags={want}", (release, flags))

    def test_the_marks_of_other_drivers(self):
        self.assertEqual(self.args("dpu_tracing_mark_write { type: 67 pid: 5 name: 'n' value: 8 }"),
                         ("tracing_mark_write", "C|5|n|8"))
        self.assertEqual(self.args("panel_write_generic { type: 67 pid: 5 name: 'n' value: 8 }"),
                         ("panel_write_generic", "C|5|n|8"))

    def test_generic_events(self):
        text = ("generic { event_name: 'vendor' field { name: 'a' str_value: 'x' } "
                "field { name: 'b' int_value: -2 } field { name: 'c' uint_value: 3 } }")
        self.assertEqual(self.args(text), ("vendor", " a=x b=-2 c=3"))

    def test_rows_that_are_not_events(self):
        trace = self.made("lines", event("print { buf: 'x' }"))
        self.assertEqual(
            self.rows("SELECT to_ftrace(NULL) AS a, to_ftrace(99999) AS b, to_ftrace(-1) AS c",
                      trace), [(None, None, None)])
        for wrong in ("to_ftrace('a')", "to_ftrace(1.5)"):
            self.assertIn("the id of a row of ftrace_event",
                          self.ask(f"SELECT {wrong}", db=trace, code=1))


if __name__ == "__main__":
    unittest.main()
