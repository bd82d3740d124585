/* SPDX-License-Identifier: BSD-2-Clause */
/* Contents of the files. */

#include "device/tree_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/control_call.h"
#include "base/stat_read.h"
#include "device/adapter.h"
#include "device/attributes.h"
#include "device/device.h"
#include "device/tree_names.h"
#include "loop/loop.h"
#include "object/hca.h"
#include "port/count.h"

static int fill_port_line(FILE *out, const struct tree_place *p, const char *format,
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

static int fill_lid(FILE *out, const struct tree_place *p)
{
	return fill_port_line(out, p, "0x%x\n", port_lid);
}

static int fill_sm_lid(FILE *out, const struct tree_place *p)
{
	return fill_port_line(out, p, "0x%x\n", port_sm_lid);
}

static int fill_link_layer(FILE *out, const struct tree_place *p)
{
	fputs(adapter_is_infiniband() ? "InfiniBand\n" : "Ethernet\n", out);
	return 0;
}

static int fill_board(FILE *out, const struct tree_place *p)
{
	fprintf(out, "%s\n", adapter()->board);
	return 0;
}

static int fill_firmware(FILE *out, const struct tree_place *p)
{
	fprintf(out, "%s\n", adapter()->attr.fw_ver);
	return 0;
}

/* Part number as in mlx5 and mlx4, "MT4123"; uroce's own type has none. */
static int fill_type(FILE *out, const struct tree_place *p)
{
	const struct ibv_device_attr *a = &adapter()->attr;

	if (a->vendor_id == 0x02c9)
		fprintf(out, "MT%u\n", a->vendor_part_id);
	else
		fputs("uroce\n", out);
	return 0;
}

static int fill_revision(FILE *out, const struct tree_place *p)
{
	fprintf(out, "%x\n", adapter()->attr.hw_ver);
	return 0;
}

static int fill_capabilities(FILE *out, const struct tree_place *p)
{
	return fill_port_line(out, p, "0x%08x\n", port_capabilities);
}

static int fill_state(FILE *out, const struct tree_place *p)
{
	struct ibv_port_attr port;

	device_port(p->device, &port);
	fprintf(out, "%d: %s\n", port.state, port.state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN");
	return 0;
}

static int fill_physical_state(FILE *out, const struct tree_place *p)
{
	struct ibv_port_attr port;

	device_port(p->device, &port);
	fprintf(out, "%d: %s\n", port.phys_state, port.state == IBV_PORT_ACTIVE ? "LinkUp" : "Disabled");
	return 0;
}

/* Rate in the kernel's format. */
static int fill_rate(FILE *out, const struct tree_place *p)
{
	struct port_rate r;

	device_rate(p->device, &r);
	fprintf(out, "%u%s Gb/sec (%uX %s)\n", r.mbps / 1000, r.mbps % 1000 ? ".5" : "", r.lanes, r.name);
	return 0;
}

static void write_gid(FILE *out, const union ibv_gid *gid)
{
	for (int i = 0; i < 16; i += 2)
		fprintf(out, "%02x%02x%c", gid->raw[i], gid->raw[i + 1], i == 14 ? '\n' : ':');
}

static int fill_gid(FILE *out, const struct tree_place *p)
{
	union ibv_gid gid;

	device_port_gid(p->device, p->index, &gid);
	write_gid(out, &gid);
	return 0;
}

static int fill_gid_type(FILE *out, const struct tree_place *p)
{
	union ibv_gid gid;

	if (!device_port_gid(p->device, p->index, &gid))
		return EINVAL;
	fputs(adapter_is_infiniband() ? "IB/RoCE v1\n" : "RoCE v2\n", out);
	return 0;
}

static int fill_gid_interface(FILE *out, const struct tree_place *p)
{
	union ibv_gid gid;

	if (!device_gid(p->device, p->index, &gid))
		return EINVAL;
	fprintf(out, "%s\n", p->device->netif_name);
	return 0;
}

static int fill_guid(FILE *out, const struct tree_place *p)
{
	uint8_t g[8];

	memcpy(g, &p->device->guid, sizeof(g));
	fprintf(out, "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7]);
	return 0;
}

static int fill_name(FILE *out, const struct tree_place *p)
{
	fprintf(out, "%s\n", p->device->base.name);
	return 0;
}

unsigned tree_minor(const struct device *d)
{
	return TREE_MINOR + (unsigned)d->number - 1;
}

static int fill_dev(FILE *out, const struct tree_place *p)
{
	fprintf(out, "%d:%u\n", TREE_MAJOR, tree_minor(p->device));
	return 0;
}

unsigned tree_mad_minor(const struct device *d)
{
	return (unsigned)d->number - 1;
}

static int fill_mad_dev(FILE *out, const struct tree_place *p)
{
	fprintf(out, "%d:%u\n", TREE_MAJOR, tree_mad_minor(p->device));
	return 0;
}

static int fill_mad_version(FILE *out, const struct tree_place *p)
{
	if (!adapter_is_infiniband())
		return ENOENT;
	fputs("5\n", out);
	return 0;
}

static int fill_netif_link(FILE *out, const struct tree_place *p)
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

/* Copies a file of the interface's own device, if any: the adapter has the same NUMA node. */
static int fill_from_netif(FILE *out, const struct tree_place *p, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/%s", p->device->netif_name, name);
	return fill_from(out, path);
}

void tree_pci_address(const struct device *d, char *buffer, size_t size)
{
	snprintf(buffer, size, TREE_PCI_DOMAIN ":%02x:00.0", (unsigned)d->number & 0xff);
}

/* Links to the PCI function. The device of a whole interface has a directory instead. */
static int fill_pci_link(FILE *out, const struct tree_place *p)
{
	char address[16];

	if (!device_has_one_address(p->device))
		return ENOENT;
	tree_pci_address(p->device, address, sizeof(address));
	fprintf(out, "../../../devices/pci" TREE_PCI_DOMAIN ":00/%s", address);
	return 0;
}

static int fill_ib_link(FILE *out, const struct tree_place *p)
{
	fprintf(out, "/sys/class/infiniband/%s", p->device->base.name);
	return 0;
}

static int fill_numa_node(FILE *out, const struct tree_place *p)
{
	if (p->device->node >= 0)
		fprintf(out, "%d\n", p->device->node);
	else if (fill_from_netif(out, p, "numa_node"))
		fputs("-1\n", out);
	return 0;
}

/* Copies a file of the NUMA node given to the device, if the machine has such a node. */
static int fill_from_node(FILE *out, const struct tree_place *p, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/%s", p->device->node, name);
	return p->device->node < 0 ? ENOENT : fill_from(out, path);
}

static int fill_cpu_list(FILE *out, const struct tree_place *p)
{
	if (fill_from_node(out, p, "cpulist") == 0)
		return 0;
	if (fill_from_netif(out, p, "local_cpulist"))
		fprintf(out, "0-%ld\n", sysconf(_SC_NPROCESSORS_CONF) - 1);
	return 0;
}

/* Mask of all processors, in words of 32 bits, the highest first. */
static int fill_cpus(FILE *out, const struct tree_place *p)
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

/* A counter: of the interface (`of`: offset in struct count) in units of `unit` bytes, or, with unit 0, one of enum
 * hca_counter. */
struct tree_counter {
	size_t of;
	unsigned unit;
};

/* Sum over other processes of the user. */
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

/* Count of other processes, for a program without an open device, which sees the port from outside. A program with
 * one sees its own count, as if each process had an adapter. */
static uint64_t counted_by_others(const struct tree_place *p, const struct tree_counter *counter)
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

int tree_fill_counter(FILE *out, const struct tree_place *p, const struct tree_counter *counter)
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

static int fill_driver_version(FILE *out, const struct tree_place *p)
{
	if (fill_from(out, "/sys/module/nvidia/version"))
		fprintf(out, "1.0\n");
	return 0;
}

#define DEVICE	  "%d"
#define VERBS	  "%v"
#define PCI	  "%p"
#define INTERFACE "%i"
#define GID	  "%g"
#define IB	  "/sys/class/infiniband/" DEVICE "/"
#define UVERBS	  "/sys/class/infiniband_verbs/"
#define UMAD	  "/sys/class/infiniband_mad/"
#define MAD	  "%m"

#define PORT_COUNTER(name, field, unit)                                                         \
	{                                                                                       \
		IB "ports/1/counters/" name, TREE_FILE, .counter = &(const struct tree_counter) \
		{                                                                               \
			offsetof(struct count, field), unit                                     \
		}                                                                               \
	}
#define HARDWARE_COUNTER(name, field)                                                              \
	{                                                                                          \
		IB "ports/1/hw_counters/" name, TREE_FILE, .counter = &(const struct tree_counter) \
		{                                                                                  \
			offsetof(struct count, field), 1                                           \
		}                                                                                  \
	}
#define ENGINE_COUNTER(name, what)                                                                 \
	{                                                                                          \
		IB "ports/1/hw_counters/" name, TREE_FILE, .counter = &(const struct tree_counter) \
		{                                                                                  \
			what, 0                                                                    \
		}                                                                                  \
	}

const struct tree_row tree_rows[] = {
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
	/* names as in mlx5, or as in rxe where mlx5 has none */
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

const size_t tree_row_count = ARRAY_SIZE(tree_rows);
