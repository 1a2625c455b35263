"""System calls no program in a box needs, with their numbers on x86-64 and aarch64 (None: does not exist there).

Sources: the kernel's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

Numbers = dict[str, tuple[int | None, int | None]]

REFUSED: Numbers = {  # EPERM: the kernel's answer to somebody without the right
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "finit_module": (313, 273),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}

NEWEST: Numbers = {  # EPERM too, but a Docker engine refuses only those that its libseccomp knows by name
    "file_setattr": (469, 469),
    "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    "statmount": (457, 457),
}

ABSENT: Numbers = {  # ENOSYS: programs have a fallback for a kernel without these
    "clone3": (435, 435),  # its flags lie behind a pointer, where a filter cannot see CLONE_NEWUSER
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "memfd_create": (319, 279),  # memory that no process maps escapes the watchdog
    "memfd_secret": (447, 447),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),  # queues and System V objects outlive their processes, and so a reset
    "msgget": (68, 186),
    "nfsservctl": (180, 42),
    "open_tree": (428, 428),
    "semget": (64, 190),
    "shmget": (29, 194),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "uselib": (134, None),
    "ustat": (136, None),
}

UNSUITED: Numbers = {  # EINVAL: programs take their files for ones that this cannot be done to, and copy
    "splice": (275, 76),  # a byte of a page of somebody else's stands for the whole page, 2 MB where it is a large one
    "vmsplice": (278, 75),
}

CLONE = (56, 220)
FCNTL = (72, 25)
IOCTL = (16, 29)
PRLIMIT = (302, 261)
SOCKET = (41, 198)

# Calls that could slow another process: {name: (numbers, the argument that names it, values of the first argument that
# name more than one process)}. A child may set its own and its children's, never PID 1's.
SLOWING: dict[str, tuple[tuple[int, int], int, tuple[int, ...]]] = {
    "ioprio_set": ((251, 30), 1, (2, 3)),  # IOPRIO_WHO_PGRP, IOPRIO_WHO_USER
    "sched_setaffinity": ((203, 122), 0, ()),
    "sched_setattr": ((314, 274), 0, ()),
    "sched_setparam": ((142, 118), 0, ()),
    "sched_setscheduler": ((144, 119), 0, ()),
    "setpriority": ((141, 140), 1, (1, 2)),  # PRIO_PGRP, PRIO_USER
}
SETSOCKOPT = (54, 208)
