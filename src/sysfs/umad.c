/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/umad.h"

#include <endian.h>
#include <inttypes.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "base/thread.h"
#include "sysfs/face.h"

enum {
	MAD_BYTES = 256,
	FILES = 8, /* max open files of a process */
	/* header without `pkey_index`, until the program asks for the new one */
	OLD_HEADER = offsetof(struct ib_user_mad_hdr, pkey_index),
	NEW_HEADER = sizeof(struct ib_user_mad_hdr),

	/* IBTA 14.2: subnet management packets */
	CLASS_BY_LID = 0x01,
	CLASS_DIRECT = 0x81,
	METHOD_GET = 0x01,
	METHOD_RESPONSE = 0x81,
	ATTRIBUTE_NODE_DESCRIPTION = 0x10,
	ATTRIBUTE_NODE_INFO = 0x11,
	ATTRIBUTE_GUID_INFO = 0x14,
	ATTRIBUTE_PORT_INFO = 0x15,
	STATUS_UNSUPPORTED = 0x000c, /* no such method of this attribute */
	STATUS_DIRECTION = 0x8000,   /* response by a directed route */
	NODE_IS_CA = 1,
};

/* IBTA 14.2.1; a directed route's packet has the same length. */
struct smp {
	uint8_t base_version, management_class, class_version, method;
	uint16_t status;
	uint8_t hop_pointer, hop_count;
	uint64_t transaction;
	uint16_t attribute, reserved;
	uint32_t modifier;
	uint64_t key;
	uint16_t source_lid, destination_lid;
	uint8_t reserved2[28], data[64], paths[128];
} __attribute__((packed));
static_assert(sizeof(struct smp) == MAD_BYTES, "IBTA 13.4.2");

/* IBTA 14.2.5.3 */
struct node_info {
	uint8_t base_version, class_version, type, ports;
	uint64_t system_guid, node_guid, port_guid;
	uint16_t partitions, device;
	uint32_t revision;
	uint8_t port, vendor[3];
} __attribute__((packed));

/* IBTA 14.2.5.6 */
struct port_info {
	uint64_t key, gid_prefix;
	uint16_t lid, sm_lid;
	uint32_t capabilities;
	uint16_t diagnosis, lease;
	uint8_t port, width_enabled, width_supported, width_active, speed_state, physical, lmc, speed_active, mtu_sl,
		lanes, limits[3];
	uint8_t mtu_most, stalls, lanes_used, violations[6], guids, rest[11], extended_speed, extended_enabled;
} __attribute__((packed));
static_assert(sizeof(struct port_info) == 64, "as long as the data of a packet");

struct file {
	_Atomic int fd; /* program's end + 1; 0: free. Possibly closed since: see file_of() */
	ino_t inode;	/* inode of the program's end */
	_Atomic bool long_header;
	_Atomic uint32_t agents;
	int own; /* our end */
	char device[64];
};

static struct file files[FILES];

/* ---- data of the port ---- */

/* First line of a file of the device, or "". */
static void read_line(const struct file *f, const char *name, char *line, size_t size)
{
	struct tree_node node;
	char path[PATH_MAX];

	*line = 0;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", f->device, name);
	if (uroce_tree_read(path, &node))
		return;
	if (node.kind == TREE_FILE)
		snprintf(line, size, "%.*s", (int)strcspn(node.text, "\n"), node.text);
	free(node.text);
}

static uint64_t read_number(const struct file *f, const char *name)
{
	char line[128];

	read_line(f, name, line, sizeof(line));
	return strtoull(line, NULL, 0);
}

/* A number such as "0000:c0ff:fe00:0202"; of a GID, the last half, or the first. */
static uint64_t read_guid(const struct file *f, const char *name, bool last)
{
	uint64_t value = 0;
	char line[128], *at = line, *part;
	int n = 0;

	read_line(f, name, line, sizeof(line));
	while ((part = strsep(&at, ":")) && (last || n++ < 4))
		value = value << 16 | (strtoull(part, NULL, 16) & 0xffff);
	return value;
}

/* ---- answers ---- */

static void tell_node(const struct file *f, struct smp *m)
{
	uint64_t guid = read_guid(f, "node_guid", true);
	char type[32];
	struct node_info i = {
		.base_version = 1,
		.class_version = 1,
		.type = NODE_IS_CA,
		.ports = 1,
		.system_guid = htobe64(read_guid(f, "sys_image_guid", true)),
		.node_guid = htobe64(guid),
		.port_guid = htobe64(read_guid(f, "ports/1/gids/0", true)),
		.partitions = htobe16(128),
		.revision = htobe32((uint32_t)read_number(f, "hw_rev")),
		.port = 1,
		.vendor = {0x00, 0x02, 0xc9},
	};

	read_line(f, "hca_type", type, sizeof(type));
	i.device = htobe16((uint16_t)strtoul(type + strcspn(type, "0123456789"), NULL, 10));
	memcpy(m->data, &i, sizeof(i));
}

/* Code of the speed in "200 Gb/sec (4X HDR)"; 0 if at most 10 Gb/s per lane. */
static unsigned extended_speed(const struct file *f)
{
	static const char *const speeds[] = {"FDR", "EDR", "HDR"};
	char line[64];

	read_line(f, "ports/1/rate", line, sizeof(line));
	for (unsigned i = 0; i < ARRAY_SIZE(speeds); i++)
		if (strstr(line, speeds[i]))
			return 1u << i;
	return 0;
}

static void tell_port(const struct file *f, struct smp *m)
{
	struct port_info i = {
		.gid_prefix = htobe64(read_guid(f, "ports/1/gids/0", false)),
		.lid = htobe16((uint16_t)read_number(f, "ports/1/lid")),
		.sm_lid = htobe16((uint16_t)read_number(f, "ports/1/sm_lid")),
		.capabilities = htobe32((uint32_t)read_number(f, "ports/1/cap_mask")),
		.port = 1,
		.width_enabled = 3, /* 1x and 4x; 4x */
		.width_supported = 3,
		.width_active = 2,
		.speed_state = (uint8_t)(7 << 4 | read_number(f, "ports/1/state")),
		.physical = (uint8_t)(read_number(f, "ports/1/phys_state") << 4 | 2), /* polling when down */
		.lmc = (uint8_t)(read_number(f, "ports/1/lid_mask_count") & 7),
		.speed_active = 4 << 4 | 7,
		.mtu_sl = 5 << 4, /* 4096 */
		.mtu_most = 5,
		.lanes = 1 << 4,
		.lanes_used = 1 << 4,
		.guids = 1,
		.extended_speed = (uint8_t)(extended_speed(f) << 4 | 7),
		.extended_enabled = 7,
	};

	memcpy(m->data, &i, sizeof(i));
}

static void tell_guids(const struct file *f, struct smp *m)
{
	uint64_t guid = htobe64(read_guid(f, "ports/1/gids/0", true));

	if (!m->modifier) /* block of eight GUIDs; there is one */
		memcpy(m->data, &guid, sizeof(guid));
}

static void tell_description(const struct file *f, struct smp *m)
{
	read_line(f, "node_desc", (char *)m->data, sizeof(m->data));
}

static const struct {
	uint16_t attribute;
	void (*tell)(const struct file *f, struct smp *m);
} attributes[] = {
	{ATTRIBUTE_NODE_DESCRIPTION, tell_description},
	{ATTRIBUTE_NODE_INFO, tell_node},
	{ATTRIBUTE_GUID_INFO, tell_guids},
	{ATTRIBUTE_PORT_INFO, tell_port},
};

/* True for a directed route without hops, or the LID of this port. */
static bool is_to_us(const struct file *f, const struct smp *m, uint16_t lid)
{
	if (m->management_class == CLASS_DIRECT)
		return m->hop_count == 0;
	return m->management_class == CLASS_BY_LID && lid == read_number(f, "ports/1/lid");
}

/* False if there is no answer. */
static bool answer(const struct file *f, struct smp *m, uint16_t lid)
{
	uint16_t status = STATUS_UNSUPPORTED;

	if (!is_to_us(f, m, lid))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		if (m->method == METHOD_GET && be16toh(m->attribute) == attributes[i].attribute) {
			memset(m->data, 0, sizeof(m->data));
			attributes[i].tell(f, m);
			status = 0;
		}
	m->status = htobe16(status | (m->management_class == CLASS_DIRECT ? STATUS_DIRECTION : 0));
	m->method = METHOD_RESPONSE;
	return true;
}

/* ---- a file ---- */

static void take(struct file *f, uint8_t *bytes, size_t size)
{
	size_t header = atomic_load_explicit(&f->long_header, memory_order_relaxed) ? NEW_HEADER : OLD_HEADER;
	struct ib_user_mad_hdr h = {0};
	struct smp m;

	if (size < header + sizeof(m))
		return;
	memcpy(&h, bytes, header);
	memcpy(&m, bytes + header, sizeof(m));
	h.status = answer(f, &m, be16toh(h.lid)) ? 0 : ETIMEDOUT;
	h.length = (uint32_t)(header + sizeof(m));
	memcpy(bytes, &h, header);
	memcpy(bytes + header, &m, sizeof(m));
	(void)!send(f->own, bytes, header + sizeof(m), MSG_NOSIGNAL);
}

/* Answers until the program closes its end. */
static void *serve(void *arg)
{
	struct file *f = arg;
	uint8_t bytes[NEW_HEADER + 2 * MAD_BYTES];
	ssize_t n;

	while ((n = recv(f->own, bytes, sizeof(bytes), 0)) > 0)
		take(f, bytes, (size_t)n);
	close(f->own);
	atomic_store_explicit(&f->fd, 0, memory_order_release); /* pairs with file_take() */
	return NULL;
}

static struct file *file_take(void)
{
	for (size_t i = 0; i < FILES; i++) {
		int free = 0;

		if (atomic_compare_exchange_strong_explicit(&files[i].fd, &free, -1, memory_order_acquire,
							    memory_order_relaxed))
			return &files[i];
	}
	errno = EMFILE;
	return NULL;
}

static bool find_device(struct file *f, const char *name)
{
	struct tree_node node;
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/infiniband_mad/%.16s/ibdev", name);
	if (uroce_tree_read(path, &node))
		return false;
	snprintf(f->device, sizeof(f->device), "%.*s", (int)strcspn(node.text, "\n"), node.text);
	free(node.text);
	return true;
}

/* Returns -1 with errno. */
static int file_begin(struct file *f, const char *name, int flags)
{
	struct stat st;
	int pair[2], error;

	if (!find_device(f, name)) {
		errno = ENODEV;
		return -1;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	f->own = high_fd(pair[1]);
	f->agents = 0;
	f->long_header = false;
	error = fstat(pair[0], &st) || f->own < 0 || fcntl(pair[0], F_SETFL, flags & O_NONBLOCK) ||
				fcntl(pair[0], F_SETFD, flags & O_CLOEXEC ? FD_CLOEXEC : 0)
			? errno
			: 0;
	f->inode = st.st_ino;
	if (!error)
		error = -thread_start(serve, f);
	if (!error)
		return pair[0];
	close(pair[0]);
	if (f->own >= 0)
		close(f->own);
	errno = error;
	return -1;
}

int umad_open(const char *name, int flags)
{
	struct file *f = file_take();
	int fd;

	if (!f)
		return -1;
	fd = file_begin(f, name, flags);
	atomic_store_explicit(&f->fd, fd + 1, memory_order_release); /* pairs with file_of() */
	return fd;
}

static struct file *file_of(int fd)
{
	struct stat st;

	for (size_t i = 0; i < FILES; i++)
		/* acquire: pairs with the release in umad_open() */
		if (atomic_load_explicit(&files[i].fd, memory_order_acquire) == fd + 1 && !fstat(fd, &st) &&
		    st.st_ino == files[i].inode)
			return &files[i];
	return NULL;
}

static int file_control(struct file *f, unsigned long request, void *arg)
{
	uint32_t agent = atomic_fetch_add_explicit(&f->agents, 1, memory_order_relaxed);

	switch (request) {
	case IB_USER_MAD_ENABLE_PKEY:
		atomic_store_explicit(&f->long_header, true, memory_order_relaxed);
		return 0;
	case IB_USER_MAD_REGISTER_AGENT:
		((struct ib_user_mad_reg_req *)arg)->id = agent;
		return 0;
	case IB_USER_MAD_REGISTER_AGENT2:
		((struct ib_user_mad_reg_req2 *)arg)->id = agent;
		return 0;
	case IB_USER_MAD_UNREGISTER_AGENT:
		return 0;
	}
	errno = ENOTTY;
	return -1;
}

PUBLIC int ioctl(int fd, unsigned long request, ...)
{
	struct file *f = _IOC_TYPE(request) == RDMA_IOCTL_MAGIC ? file_of(fd) : NULL;
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	return f ? file_control(f, request, arg) : NEXT(ioctl)(fd, request, arg);
}
