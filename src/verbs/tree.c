/* SPDX-License-Identifier: BSD-2-Clause */
/* The adapter's files in /sys and /dev: see tree.h. */
#include "verbs/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/control_call.h"
#include "base/stat_read.h"
#include "loop/loop.h"
#include "port/count.h"
#include "memory/gpu.h"
#include "object/hca.h"
#include "verbs/adapter.h"
#include "verbs/device.h"

struct place {
	struct device *device; /* NULL: no device in the path */
	unsigned index;	       /* the number in the path */
};

/* Writes the contents of a file to `out`. 0 or an errno. */
typedef int (*fill_fn)(FILE *out, const struct place *p);

static int fill_port_line(FILE *out, const struct place *p, const char *format,
			  unsigned (*value)(const struct ibv_port_attr *))
{
	struct ibv_port_attr port;

	device_port(p->device, &port);
	fprintf(out, format, value(&port));
	return 0;
}

static unsigned port_lid(const struct ibv_port_attr *a)
{
	return a->lid;
}

static unsigned port_sm_lid(const struct ibv_port_attr *a)
{
	return a->sm_lid;
}

static unsigned port_capabilities(const struct ibv_port_attr *a)
{
	return a->port_cap_flags;
}

static int fill_lid(FILE *out, const struct place *p)
{
	return fill_port_line(out, p, "0x%x\n", port_lid);
}

static int fill_sm_lid(FILE *out, const struct place *p)
{
	return fill_port_line(out, p, "0x%x\n", port_sm_lid);
}

static int fill_link_layer(FILE *out, const struct place *p)
{
	fputs(adapter_is_infiniband() ? "InfiniBand\n" : "Ethernet\n", out);
	return 0;
}

static int fill_board(FILE *out, const struct place *p)
{
	fprintf(out, "%s\n", adapter()->board);
	return 0;
}

static int fill_firmware(FILE *out, const struct place *p)
{
	fprintf(out, "%s\n", adapter()->attr.fw_ver);
	return 0;
}

/* As mlx5 and mlx4 have it, "MT4123"; uroce is of no such type. */
static int fill_type(FILE *out, const struct place *p)
{
	const struct ibv_device_attr *a = &adapter()->attr;

	if (a->vendor_id == 0x02c9)
		fprintf(out, "MT%u\n", a->vendor_part_id);
	else
		fputs("uroce\n", out);
	return 0;
}

static int fill_revision(FILE *out, const struct place *p)
{
	fprintf(out, "%x\n", adapter()->attr.hw_ver);
	return 0;
}

static int fill_capabilities(FILE *out, const struct place *p)
{
	return fill_port_line(out, p, "0x%08x\n", port_capabilities);
}

static int fill_state(FILE *out, const struct place *p)
{
	struct ibv_port_attr port;

	device_port(p->device, &port);
	fprintf(out, "%d: %s\n", port.state, port.state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN");
	return 0;
}

static int fill_physical_state(FILE *out, const struct place *p)
{
	struct ibv_port_attr port;

	device_port(p->device, &port);
	fprintf(out, "%d: %s\n", port.phys_state, port.state == IBV_PORT_ACTIVE ? "LinkUp" : "Disabled");
	return 0;
}

/* The rate file in the kernel's format for an Ethernet adapter, whose speed is in port.c's table. */
static int fill_rate(FILE *out, const struct place *p)
{
	static const struct {
		uint8_t speed;
		unsigned mbps; /* per lane */
		const char *name;
	} speeds[] = {
		{1, 2500, "SDR"},   {2, 5000, "DDR"},	{8, 10000, "FDR10"},
		{32, 25000, "EDR"}, {64, 50000, "HDR"}, {128, 100000, "NDR"},
	};
	struct ibv_port_attr port;
	size_t i = 0;
	unsigned lanes, mbps;

	device_port(p->device, &port);
	while (i + 1 < ARRAY_SIZE(speeds) && speeds[i].speed != port.active_speed)
		i++;
	lanes = port.active_width == 1 ? 1 : 4;
	mbps = lanes * speeds[i].mbps;
	fprintf(out, "%u%s Gb/sec (%uX %s)\n", mbps / 1000, mbps % 1000 ? ".5" : "", lanes, speeds[i].name);
	return 0;
}

static void write_gid(FILE *out, const union ibv_gid *gid)
{
	for (int i = 0; i < 16; i += 2)
		fprintf(out, "%02x%02x%c", gid->raw[i], gid->raw[i + 1], i == 14 ? '\n' : ':');
}

static int fill_gid(FILE *out, const struct place *p)
{
	union ibv_gid gid;

	device_port_gid(p->device, p->index, &gid);
	write_gid(out, &gid);
	return 0;
}

static int fill_gid_type(FILE *out, const struct place *p)
{
	union ibv_gid gid;

	if (!device_port_gid(p->device, p->index, &gid))
		return EINVAL;
	fputs(adapter_is_infiniband() ? "IB/RoCE v1\n" : "RoCE v2\n", out);
	return 0;
}

static int fill_gid_interface(FILE *out, const struct place *p)
{
	union ibv_gid gid;

	if (!device_gid(p->device, p->index, &gid))
		return EINVAL;
	fprintf(out, "%s\n", p->device->netif_name);
	return 0;
}

static int fill_guid(FILE *out, const struct place *p)
{
	uint8_t g[8];

	memcpy(g, &p->device->guid, sizeof(g));
	fprintf(out, "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7]);
	return 0;
}

static int fill_name(FILE *out, const struct place *p)
{
	fprintf(out, "%s\n", p->device->base.name);
	return 0;
}

static unsigned minor_of(const struct device *d)
{
	return TREE_MINOR + (unsigned)d->number - 1;
}

static int fill_dev(FILE *out, const struct place *p)
{
	fprintf(out, "%d:%u\n", TREE_MAJOR, minor_of(p->device));
	return 0;
}

static unsigned mad_minor_of(const struct device *d)
{
	return (unsigned)d->number - 1;
}

static int fill_mad_dev(FILE *out, const struct place *p)
{
	fprintf(out, "%d:%u\n", TREE_MAJOR, mad_minor_of(p->device));
	return 0;
}

static int fill_mad_version(FILE *out, const struct place *p)
{
	if (!adapter_is_infiniband())
		return ENOENT;
	fputs("5\n", out);
	return 0;
}

static int fill_netif_link(FILE *out, const struct place *p)
{
	fprintf(out, "/sys/class/net/%s", p->device->netif_name);
	return 0;
}

static int fill_from(FILE *out, const char *path)
{
	FILE *f = fopen(path, "rce");
	char text[4096];
	size_t got;

	if (!f)
		return ENOENT;
	got = fread(text, 1, sizeof(text), f);
	fclose(f);
	fwrite(text, 1, got, out);
	return 0;
}

/* A file of the interface's own device, if it has one: the adapter has the same NUMA node as that. */
static int fill_from_netif(FILE *out, const struct place *p, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/%s", p->device->netif_name, name);
	return fill_from(out, path);
}

/* One bus for each device, as adapters in slots of their own have. */
static void pci_address(const struct device *d, char *buffer, size_t size)
{
	snprintf(buffer, size, TREE_PCI_DOMAIN ":%02x:00.0", (unsigned)d->number & 0xff);
}

/* A device of a whole interface has a directory of its own in place of the link. */
static int fill_pci_link(FILE *out, const struct place *p)
{
	char address[16];

	if (!device_has_one_address(p->device))
		return ENOENT;
	pci_address(p->device, address, sizeof(address));
	fprintf(out, "../../../devices/pci" TREE_PCI_DOMAIN ":00/%s", address);
	return 0;
}

static int fill_ib_link(FILE *out, const struct place *p)
{
	fprintf(out, "/sys/class/infiniband/%s", p->device->base.name);
	return 0;
}

static int fill_numa_node(FILE *out, const struct place *p)
{
	if (p->device->node >= 0)
		fprintf(out, "%d\n", p->device->node);
	else if (fill_from_netif(out, p, "numa_node"))
		fputs("-1\n", out);
	return 0;
}

/* A file of the NUMA node that the device has been given; a machine may have no such node. */
static int fill_from_node(FILE *out, const struct place *p, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/%s", p->device->node, name);
	return p->device->node < 0 ? ENOENT : fill_from(out, path);
}

static int fill_cpu_list(FILE *out, const struct place *p)
{
	if (fill_from_node(out, p, "cpulist") == 0)
		return 0;
	if (fill_from_netif(out, p, "local_cpulist"))
		fprintf(out, "0-%ld\n", sysconf(_SC_NPROCESSORS_CONF) - 1);
	return 0;
}

/* All processors, in words of 32 bits, the highest first. */
static int fill_cpus(FILE *out, const struct place *p)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	if (fill_from_node(out, p, "cpumap") == 0)
		return 0;
	if (fill_from_netif(out, p, "local_cpus") == 0)
		return 0;
	for (long word = (cpus - 1) / 32; word >= 0; word--) {
		long here = min_of(cpus - 32 * word, 32l);

		fprintf(out, "%08x%c", (unsigned)(UINT32_MAX >> (32 - here)), word ? ',' : '\n');
	}
	return 0;
}

/* A counter: a counter of the interface (`of` is its offset in struct count), shown in units of `unit` bytes; or, with
 * unit 0, one of enum hca_counter. */
struct counter {
	size_t of;
	unsigned unit;
};

/* The sum over other processes of the user. */
struct others {
	const char *device;
	size_t offset; /* in struct stat_device */
	uint64_t sum;
};

static void add_other(pid_t pid, int given, void *arg)
{
	struct others *o = arg;
	struct stat_process p;
	uint64_t value;
	size_t n;
	const struct stat_device *d;

	if (pid != getpid() && !stat_read(given, &p)) {
		d = stat_devices(&p, &n);
		for (size_t i = 0; i < n; i++)
			if (!strcmp(d[i].name, o->device)) {
				memcpy(&value, (const char *)&d[i] + o->offset, sizeof(value));
				o->sum += value;
			}
		stat_free(&p);
	}
}

/* A program that has no device open looks at the port from outside: it sees what all processes do together. One that
 * has sees what it does itself, as if each process had an adapter. */
static uint64_t counted_by_others(const struct place *p, const struct counter *counter)
{
	struct others o = {p->device->base.name, 0, 0};

	if (loop_exists())
		return 0;
	o.offset = counter->unit ? offsetof(struct stat_device, tx_packets) + counter->of
				 : offsetof(struct stat_device, trouble) + counter->of * sizeof(uint64_t);
	control_call_all("stat devices", add_other, NULL, &o);
	return o.sum;
}
static_assert(offsetof(struct stat_device, rx_errors) - offsetof(struct stat_device, tx_packets) ==
		      offsetof(struct count, rx_errors),
	      "struct count, field by field");

static int fill_counter(FILE *out, const struct place *p, const struct counter *counter)
{
	union ibv_gid gid[DEVICE_GIDS];
	struct count count;
	uint64_t value;

	if (!counter->unit) {
		value = atomic_load_explicit(&hca_counted[counter->of], memory_order_relaxed);
	} else {
		for (uint32_t i = 0; i < DEVICE_GIDS; i++)
			device_gid(p->device, i, &gid[i]);
		count = loop_count(p->device->netif_index, gid, DEVICE_GIDS);
		memcpy(&value, (const char *)&count + counter->of, sizeof(value));
	}
	value += counted_by_others(p, counter);
	value /= max_of(counter->unit, 1u);
	fprintf(out, "%" PRIu64 "\n", value);
	return 0;
}

/* The driver is loaded, or the program has found a GPU already. */
static bool has_nvidia(void)
{
	const char *driver;

	if (!access("/proc/driver/nvidia/version", F_OK))
		return true;
	driver = gpu_works();
	return driver && !strcmp(driver, "CUDA");
}

static int fill_driver_version(FILE *out, const struct place *p)
{
	if (fill_from(out, "/sys/module/nvidia/version"))
		fprintf(out, "1.0\n");
	return 0;
}

/* DEVICE, VERBS (uverbsN), PCI, INTERFACE and GID are wildcards for these names. A wildcard is a directory if more
 * follows. GID is 0 to DEVICE_GIDS - 1. A row has its text, or the function that writes it. */
#define DEVICE	  "%d"
#define VERBS	  "%v"
#define PCI	  "%p"
#define INTERFACE "%i"
#define GID	  "%g"
#define IB	  "/sys/class/infiniband/" DEVICE "/"
#define UVERBS	  "/sys/class/infiniband_verbs/"
#define UMAD	  "/sys/class/infiniband_mad/"
#define MAD	  "%m"

#define PORT_COUNTER(name, field, unit)                                                    \
	{                                                                                  \
		IB "ports/1/counters/" name, TREE_FILE, .counter = &(const struct counter) \
		{                                                                          \
			offsetof(struct count, field), unit                                \
		}                                                                          \
	}
#define HARDWARE_COUNTER(name, field)                                                         \
	{                                                                                     \
		IB "ports/1/hw_counters/" name, TREE_FILE, .counter = &(const struct counter) \
		{                                                                             \
			offsetof(struct count, field), 1                                      \
		}                                                                             \
	}
#define ENGINE_COUNTER(name, what)                                                            \
	{                                                                                     \
		IB "ports/1/hw_counters/" name, TREE_FILE, .counter = &(const struct counter) \
		{                                                                             \
			what, 0                                                               \
		}                                                                             \
	}

static const struct row {
	const char *pattern;
	enum tree_kind kind;
	const char *text;
	fill_fn fill;
	const struct counter *counter;
	bool is_mad; /* a device that takes management datagrams */
} rows[] = {
	{IB "board_id", TREE_FILE, .fill = fill_board},
	{IB "device", TREE_LINK, .fill = fill_pci_link},
	{IB "device/driver", TREE_LINK, "../../../../bus/uroce/drivers/uroce"},
	{IB "device/local_cpulist", TREE_FILE, .fill = fill_cpu_list},
	{IB "device/local_cpus", TREE_FILE, .fill = fill_cpus},
	{IB "device/net/" INTERFACE, TREE_LINK, .fill = fill_netif_link},
	{IB "device/numa_node", TREE_FILE, .fill = fill_numa_node},
	{IB "fw_ver", TREE_FILE, .fill = fill_firmware},
	{IB "hca_type", TREE_FILE, .fill = fill_type},
	{IB "hw_rev", TREE_FILE, .fill = fill_revision},
	{IB "node_desc", TREE_FILE, "uroce\n"},
	{IB "node_guid", TREE_FILE, .fill = fill_guid},
	{IB "node_type", TREE_FILE, "1: CA\n"},
	{IB "ports/1/cap_mask", TREE_FILE, .fill = fill_capabilities},
	/* data in words of 4 bytes, as in IBTA */
	PORT_COUNTER("port_rcv_data", rx_bytes, 4),
	PORT_COUNTER("port_rcv_errors", rx_errors, 1),
	PORT_COUNTER("port_rcv_packets", rx_packets, 1),
	PORT_COUNTER("port_xmit_data", tx_bytes, 4),
	PORT_COUNTER("port_xmit_discards", tx_refused, 1),
	PORT_COUNTER("port_xmit_packets", tx_packets, 1),
	{IB "ports/1/gid_attrs/ndevs/" GID, TREE_FILE, .fill = fill_gid_interface},
	{IB "ports/1/gid_attrs/types/" GID, TREE_FILE, .fill = fill_gid_type},
	{IB "ports/1/gids/" GID, TREE_FILE, .fill = fill_gid},
	/* names of mlx5, or of rxe where mlx5 has none */
	ENGINE_COUNTER("duplicate_request", HCA_DUPLICATES),
	ENGINE_COUNTER("local_ack_timeout_err", HCA_TIMEOUTS),
	ENGINE_COUNTER("out_of_buffer", HCA_NO_RECEIVE),
	ENGINE_COUNTER("out_of_sequence", HCA_GAPS),
	ENGINE_COUNTER("packet_seq_err", HCA_SEQUENCE_NAKS),
	HARDWARE_COUNTER("rcvd_pkts", rx_packets),
	ENGINE_COUNTER("retry_exceeded_err", HCA_RETRIES_SPENT),
	ENGINE_COUNTER("retry_rnr_exceeded_err", HCA_RNR_RETRIES_SPENT),
	ENGINE_COUNTER("rnr_nak_retry_err", HCA_RNR_NAKS),
	HARDWARE_COUNTER("rx_icrc_encapsulated", rx_icrc),
	HARDWARE_COUNTER("sent_pkts", tx_packets),
	{IB "ports/1/lid", TREE_FILE, .fill = fill_lid},
	{IB "ports/1/lid_mask_count", TREE_FILE, "0\n"},
	{IB "ports/1/link_layer", TREE_FILE, .fill = fill_link_layer},
	{IB "ports/1/phys_state", TREE_FILE, .fill = fill_physical_state},
	{IB "ports/1/pkeys/0", TREE_FILE, "0xffff\n"},
	{IB "ports/1/rate", TREE_FILE, .fill = fill_rate},
	{IB "ports/1/sm_lid", TREE_FILE, .fill = fill_sm_lid},
	{IB "ports/1/sm_sl", TREE_FILE, "0\n"},
	{IB "ports/1/state", TREE_FILE, .fill = fill_state},
	{IB "sys_image_guid", TREE_FILE, .fill = fill_guid},
	{UMAD "abi_version", TREE_FILE, .fill = fill_mad_version},
	{UMAD MAD "/dev", TREE_FILE, .fill = fill_mad_dev},
	{UMAD MAD "/ibdev", TREE_FILE, .fill = fill_name},
	{UMAD MAD "/port", TREE_FILE, "1\n"},
	{UVERBS "abi_version", TREE_FILE, "6\n"},
	{UVERBS VERBS "/abi_version", TREE_FILE, "1\n"},
	{UVERBS VERBS "/dev", TREE_FILE, .fill = fill_dev},
	{UVERBS VERBS "/ibdev", TREE_FILE, .fill = fill_name},
	{"/dev/infiniband/" MAD, TREE_DEVICE, .fill = fill_mad_dev, .is_mad = true},
	{"/dev/infiniband/" VERBS, TREE_DEVICE, .fill = fill_dev},
	{TREE_PEER_MEMORY "/version", TREE_FILE, .fill = fill_driver_version},
	{TREE_PEER_MODULE "/version", TREE_FILE, .fill = fill_driver_version},
	{TREE_PCI "/" PCI "/class", TREE_FILE, "0x020000\n"}, /* an Ethernet controller */
	{TREE_PCI "/" PCI "/current_link_speed", TREE_FILE, "16.0 GT/s PCIe\n"},
	{TREE_PCI "/" PCI "/current_link_width", TREE_FILE, "16\n"},
	{TREE_PCI "/" PCI "/driver", TREE_LINK, "../../../bus/uroce/drivers/uroce"},
	{TREE_PCI "/" PCI "/infiniband/" DEVICE, TREE_LINK, .fill = fill_ib_link},
	{TREE_PCI "/" PCI "/local_cpulist", TREE_FILE, .fill = fill_cpu_list},
	{TREE_PCI "/" PCI "/local_cpus", TREE_FILE, .fill = fill_cpus},
	{TREE_PCI "/" PCI "/max_link_speed", TREE_FILE, "16.0 GT/s PCIe\n"},
	{TREE_PCI "/" PCI "/max_link_width", TREE_FILE, "16\n"},
	{TREE_PCI "/" PCI "/net/" INTERFACE, TREE_LINK, .fill = fill_netif_link},
	{TREE_PCI "/" PCI "/numa_node", TREE_FILE, .fill = fill_numa_node},
};

static const struct {
	const char *path;
	bool nvidia; /* there where memory of one of NVIDIA's GPUs can be registered */
} roots[] = {
	{"/sys/class/infiniband", false}, {"/dev/infiniband", false}, {TREE_PCI, false},
	{TREE_PEER_MEMORY, true},	  {TREE_PEER_MODULE, true},
};

struct devices {
	struct device *list[DEVICE_LIMIT];
	int count;
};

static bool tree_is_ours(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		size_t n = strlen(roots[i].path);
		/* also matches /sys/class/infiniband_verbs, _mad ..., but not /dev/infinibandwagon */
		const char *ends = i == 0 ? "/_" : "/";

		if (strncmp(path, roots[i].path, n) == 0 && (!path[n] || strchr(ends, path[n])))
			return !roots[i].nvidia || has_nvidia();
	}
	return false;
}

static size_t part_length(const char *path)
{
	return strcspn(path, "/");
}

static bool part_is(const char *path, const char *name)
{
	size_t n = part_length(path);

	return strlen(name) == n && memcmp(path, name, n) == 0;
}

/* The n-th name that a wildcard stands for at this place; NULL after the last. */
static const char *expand(char wildcard, const struct devices *all, const struct place *p, unsigned n, char *buffer,
			  size_t size)
{
	if (wildcard == 'g') {
		snprintf(buffer, size, "%u", n);
		return n < DEVICE_GIDS ? buffer : NULL;
	}
	if (wildcard == 'i')
		return n == 0 ? p->device->netif_name : NULL;
	if (n >= (unsigned)all->count)
		return NULL;
	if (wildcard == 'p') {
		pci_address(all->list[n], buffer, size);
		return device_has_one_address(all->list[n]) ? buffer : "";
	}
	if (wildcard == 'm') {
		snprintf(buffer, size, "umad%u", mad_minor_of(all->list[n]));
		return adapter_is_infiniband() ? buffer : "";
	}
	if (wildcard == 'd' && p->device)
		return all->list[n] == p->device ? p->device->base.name : "";
	return wildcard == 'd' ? all->list[n]->base.name : all->list[n]->base.dev_name;
}

static bool part_matches(const char *pattern, const char *part, const struct devices *all, struct place *p)
{
	char buffer[16];
	const char *name;

	if (*pattern != '%')
		return part_length(pattern) == part_length(part) && memcmp(pattern, part, part_length(part)) == 0;
	for (unsigned n = 0; (name = expand(pattern[1], all, p, n, buffer, sizeof(buffer))); n++) {
		if (!*name || !part_is(part, name)) /* "": this device has no such thing */
			continue;
		if (pattern[1] == 'g')
			p->index = n;
		else if (pattern[1] != 'i')
			p->device = all->list[n];
		return true;
	}
	return false;
}

/* Advances in the row's pattern and in the path while they match. Both then point to the rest, at the start of a part
 * or at the end. */
static void walk(const char **pattern, const char **path, const struct devices *all, struct place *p)
{
	while (**pattern && **path && part_matches(*pattern, *path, all, p)) {
		*pattern += part_length(*pattern);
		*path += part_length(*path);
		*pattern += **pattern == '/';
		*path += **path == '/';
	}
}

/* Lists the next part of a row in this directory, unless it was just listed: rows with the same beginning are adjacent.
 */
static void list_names(FILE *out, const char *pattern, const struct devices *all, const struct place *p,
		       const char **listed)
{
	size_t n = part_length(pattern);
	char buffer[16];
	const char *name;

	if (*listed && part_length(*listed) == n && memcmp(*listed, pattern, n) == 0)
		return;
	*listed = pattern;
	if (*pattern != '%') {
		fwrite(pattern, 1, n, out);
		putc(0, out);
		return;
	}
	for (unsigned i = 0; (name = expand(pattern[1], all, p, i, buffer, sizeof(buffer))); i++)
		fwrite(name, 1, *name ? strlen(name) + 1 : 0, out);
}

/* Looks up a path and writes its contents to `out`. 0 or ENOENT. */
static int tree_look(const char *path, const struct devices *all, struct tree_node *node, FILE *out)
{
	const char *listed = NULL;
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *pattern = rows[i].pattern, *rest = path;
		struct place p = {0};

		walk(&pattern, &rest, all, &p);
		if (*pattern && !*rest) {
			found = true;
			node->kind = TREE_DIRECTORY;
			list_names(out, pattern, all, &p, &listed);
		} else if (!*pattern && (!*rest || rows[i].kind == TREE_LINK)) {
			node->kind = rows[i].kind;
			node->rest = rest;
			node->minor = !p.device ? 0 : rows[i].is_mad ? mad_minor_of(p.device) : minor_of(p.device);
			node->is_mad = rows[i].is_mad;
			node->changes = rows[i].counter;
			if (rows[i].counter)
				node->error = fill_counter(out, &p, rows[i].counter);
			else if (rows[i].fill)
				node->error = rows[i].fill(out, &p);
			if (node->error == ENOENT) { /* not this device: a row below may have it */
				node->error = 0;
				continue;
			}
			if (rows[i].text)
				fputs(rows[i].text, out);
			return 0;
		}
	}
	return found ? 0 : ENOENT;
}

PUBLIC int uroce_tree_read(const char *path, struct tree_node *node)
{
	struct devices all;
	FILE *out;
	int error;

	if (!tree_is_ours(path))
		return -1;
	*node = (struct tree_node){0};
	all.count = max_of(devices_list(all.list), 0);
	out = open_memstream(&node->text, &node->length);
	if (!out)
		return ENOMEM;
	error = tree_look(path, &all, node, out);
	if (fclose(out) && !error)
		error = ENOMEM;
	if (error)
		free(node->text);
	return error;
}
