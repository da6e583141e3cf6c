// SPDX-License-Identifier: Apache-2.0
//
// The tables of Android's packets. schema.h explains the lists.
#pragma once

#define ANDROID_TABLE_LIST(T)                                                                      \
    T(android_game_intervention_list,                                                              \
      "Game modes of packages: resolution, renderer and frame rate.")                              \
    T(package_list, "Installed Android packages.")                                                 \
    T(_android_aflag, "Flags of Android's features: see android_aflags.")                          \
    T(_android_cpu_per_uid, "CPU time of users: see android_cpu_per_uid_track.")                   \
    T(_android_user, "Users of an Android device: see android_user_list.")                         \
    T(_network_packet, "Network packets: see android_network_packets.")

#define COLUMNS_android_game_intervention_list(K, C, G)                                            \
    K(android_game_intervention_list, id, "Row.")                                                  \
    C(android_game_intervention_list, package_name, TEXT, "Package.")                              \
    C(android_game_intervention_list, uid, INT, "User id.")                                        \
    C(android_game_intervention_list, current_mode, INT,                                           \
      "Mode of the game: 1 standard, 2 performance, 3 battery.")                                   \
    C(android_game_intervention_list, standard_mode_supported, INT,                                \
      "1 if there is a standard mode.")                                                            \
    C(android_game_intervention_list, standard_mode_downscale, REAL,                               \
      "Factor of the resolution in this mode.")                                                    \
    C(android_game_intervention_list, standard_mode_use_angle, INT,                                \
      "1 if the app renders by ANGLE.")                                                            \
    C(android_game_intervention_list, standard_mode_fps, REAL, "Limit of frames per second.")      \
    C(android_game_intervention_list, perf_mode_supported, INT,                                    \
      "1 if there is a performance mode.")                                                         \
    C(android_game_intervention_list, perf_mode_downscale, REAL,                                   \
      "Factor of the resolution in this mode.")                                                    \
    C(android_game_intervention_list, perf_mode_use_angle, INT, "1 if the app renders by ANGLE.")  \
    C(android_game_intervention_list, perf_mode_fps, REAL, "Limit of frames per second.")          \
    C(android_game_intervention_list, battery_mode_supported, INT,                                 \
      "1 if there is a battery mode.")                                                             \
    C(android_game_intervention_list, battery_mode_downscale, REAL,                                \
      "Factor of the resolution in this mode.")                                                    \
    C(android_game_intervention_list, battery_mode_use_angle, INT,                                 \
      "1 if the app renders by ANGLE.")                                                            \
    C(android_game_intervention_list, battery_mode_fps, REAL, "Limit of frames per second.")

#define COLUMNS_package_list(K, C, G)                                                              \
    K(package_list, id, "Row.")                                                                    \
    C(package_list, package_name, TEXT, "Name.")                                                   \
    C(package_list, uid, INT, "User id of the package's processes.")                               \
    C(package_list, debuggable, INT, "1 if the package may be debugged.")                          \
    C(package_list, profileable_from_shell, INT, "1 if the shell user may profile the package.")   \
    C(package_list, version_code, INT, "Version.")

#define COLUMNS__android_aflag(K, C, G)                                                            \
    K(_android_aflag, id, "Row.")                                                                  \
    C(_android_aflag, ts, INT, "Time (ns).")                                                       \
    C(_android_aflag, package, TEXT, "Package.")                                                   \
    C(_android_aflag, name, TEXT, "Name.")                                                         \
    C(_android_aflag, flag_namespace, TEXT, "Namespace.")                                          \
    C(_android_aflag, container, TEXT, "Container.")                                               \
    C(_android_aflag, value, TEXT, "Value.")                                                       \
    C(_android_aflag, staged_value, TEXT, "Value after the next boot.")                            \
    C(_android_aflag, permission, TEXT, "The users who may change the flag.")                      \
    C(_android_aflag, value_picked_from, TEXT, "Source of the value.")                             \
    C(_android_aflag, storage_backend, TEXT, "Place where the flag is stored.")                    \
    C(_android_aflag, type, TEXT, "Type.")

#define COLUMNS__android_cpu_per_uid(K, C, G)                                                      \
    K(_android_cpu_per_uid, id, "Row.")                                                            \
    C(_android_cpu_per_uid, track_id, INT, "Track, see counter_track.")                            \
    C(_android_cpu_per_uid, uid, INT, "User id.")                                                  \
    C(_android_cpu_per_uid, cluster, INT, "Kind of processor.")                                    \
    C(_android_cpu_per_uid, total_cpu_millis, INT, "CPU time in the trace (ms).")

#define COLUMNS__android_user(K, C, G)                                                             \
    K(_android_user, id, "Row.")                                                                   \
    C(_android_user, android_user_id, INT, "Number of the user.")                                  \
    C(_android_user, type, TEXT, "Kind of user.")

#define COLUMNS__network_packet(K, C, G)                                                           \
    K(_network_packet, id, "Row.")                                                                 \
    C(_network_packet, slice_id, INT, "Slice of the packet.")                                      \
    C(_network_packet, iface, TEXT, "Network interface.")                                          \
    C(_network_packet, direction, TEXT, "Received or Transmitted.")                                \
    C(_network_packet, packet_transport, TEXT, "Protocol.")                                        \
    C(_network_packet, packet_length, INT, "Bytes.")                                               \
    C(_network_packet, packet_count, INT, "Packets.")                                              \
    C(_network_packet, socket_tag, INT, "Tag of the socket.")                                      \
    C(_network_packet, socket_tag_str, TEXT, "Tag of the socket, in hexadecimal.")                 \
    C(_network_packet, socket_uid, INT, "User id of the socket.")                                  \
    C(_network_packet, local_port, INT, "Local port.")                                             \
    C(_network_packet, remote_port, INT, "Remote port.")                                           \
    C(_network_packet, packet_icmp_type, INT, "ICMP type.")                                        \
    C(_network_packet, packet_icmp_code, INT, "ICMP code.")                                        \
    C(_network_packet, packet_tcp_flags, INT, "TCP flags.")                                        \
    C(_network_packet, packet_tcp_flags_str, TEXT, "TCP flags, in letters.")
