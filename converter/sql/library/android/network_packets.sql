-- SPDX-License-Identifier: Apache-2.0
--
-- Packets that Android devices sent and received, and how long they kept interfaces awake.

INCLUDE PERFETTO MODULE std.metasql.unparenthesize;

-- Network packets that Android's recorder saw (module android.network_packets).
CREATE PERFETTO VIEW android_network_packets(
    -- Slice, see slice.
    id ID,
    -- Time (ns).
    ts TIMESTAMP,
    -- Time of a bundle of packets (ns).
    dur DURATION,
    -- Always NULL.
    track_name STRING,
    -- Package that sent or received the packet, or the user id.
    package_name STRING,
    -- Network interface.
    iface STRING,
    -- Received or Transmitted.
    direction STRING,
    -- Packets.
    packet_count LONG,
    -- Bytes.
    packet_length LONG,
    -- Protocol.
    packet_transport STRING,
    -- TCP flags, a letter each.
    packet_tcp_flags STRING,
    -- Tag of the socket, in hexadecimal.
    socket_tag STRING,
    -- User id of the socket.
    socket_uid LONG,
    -- Local port.
    local_port LONG,
    -- Remote port.
    remote_port LONG,
    -- ICMP type.
    packet_icmp_type LONG,
    -- ICMP code.
    packet_icmp_code LONG,
    -- packet_tcp_flags as a number.
    packet_tcp_flags_int LONG,
    -- socket_tag as a number.
    socket_tag_int LONG
) AS
SELECT id, ts, dur, track_name, package_name, iface, direction, packet_count, packet_length,
       packet_transport, packet_tcp_flags, packet_tcp_flags_int, socket_tag, socket_tag_int,
       socket_uid, local_port, remote_port, packet_icmp_type, packet_icmp_code
FROM main.android_network_packets;

-- Numbers the groups of packets whose times touch or overlap. Returns the rows of the table with
-- two more columns: max_end_so_far, the end (ns) of all packets before in the partition, NULL at
-- first; group_id, the number of the group in its partition, from 1.
CREATE PERFETTO MACRO _add_overlap_group_id(
    -- Packets: ts and dur (ns), the partitions.
    src TableOrSubquery,
    -- Columns of partitions in parentheses.
    partition_columns ColumnNameList
)
RETURNS TableOrSubquery AS (
    SELECT *, count(*) FILTER (WHERE ifnull(ts > max_end_so_far, 1)) OVER (
                  PARTITION BY metasql_unparenthesize_exprlist!($partition_columns) ORDER BY ts
              ) AS group_id
    FROM (
        SELECT *, max(ts + dur) OVER (
                      PARTITION BY metasql_unparenthesize_exprlist!($partition_columns)
                      ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                  ) AS max_end_so_far
        FROM $src
    )
);

-- The times in which an interface was awake, if it falls asleep some time after a packet. Columns:
-- the partitions, ts and dur (ns), packet_count, packet_length (bytes).
CREATE PERFETTO MACRO android_network_uptime_spans(
    -- Packets: ts and dur (ns), packet_count, packet_length (bytes), the partitions.
    src TableOrSubquery,
    -- Columns of partitions in parentheses.
    partition_columns ColumnNameList,
    -- How long after a packet an interface falls asleep (ns).
    timeout Expr
)
RETURNS TableOrSubquery AS (
    WITH __awake AS (
        -- Packets that begin in the same timeout are summed up first: one wake-up serves them.
        SELECT metasql_unparenthesize_exprlist!($partition_columns), min(ts) AS ts,
               max(ts + dur) + $timeout - min(ts) AS dur, sum(packet_count) AS packet_count,
               sum(packet_length) AS packet_length
        FROM $src
        GROUP BY metasql_unparenthesize_exprlist!($partition_columns), CAST(ts / $timeout AS INT)
    )
    SELECT metasql_unparenthesize_exprlist!($partition_columns), min(ts) AS ts,
           max(ts + dur) - min(ts) AS dur, sum(packet_count) AS packet_count,
           sum(packet_length) AS packet_length
    FROM _add_overlap_group_id!(__awake, $partition_columns)
    GROUP BY metasql_unparenthesize_exprlist!($partition_columns), group_id
);

-- How much longer an interface was awake because of each packet. The first packet of a group is
-- charged the time since the group before, at most the timeout; the duration of a group is charged
-- to its packets by their packet_count. Columns: id, uptime_cost (ns).
CREATE PERFETTO MACRO android_network_uptime_cost(
    -- Packets: id, ts and dur (ns), packet_count, the partitions.
    src TableOrSubquery,
    -- Columns of partitions in parentheses.
    partition_columns ColumnNameList,
    -- How long after a packet an interface falls asleep (ns).
    timeout Expr
)
RETURNS TableOrSubquery AS (
    SELECT id,
           ifnull(max(0, min($timeout, ts - max_end_so_far)), $timeout)
           + (max(ts + dur) OVER same - min(ts) OVER same) * packet_count
             / sum(packet_count) OVER same AS uptime_cost
    FROM _add_overlap_group_id!($src, $partition_columns)
    WINDOW same AS (
        PARTITION BY metasql_unparenthesize_exprlist!($partition_columns), group_id
    )
);
