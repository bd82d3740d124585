/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce devices`: lists the devices that programs see. */
#include "tools/run/devices.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/base.h"
#include "base/config.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/run/gpu_here.h"
#include "tools/run/same_host.h"
#include "tools/terminal.h"

const char *gid_text(const union ibv_gid *gid)
{
	static char text[INET6_ADDRSTRLEN];

	return gid_print(gid->raw, text);
}

unsigned interface_mtu(const char *name)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return 0;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	err = ioctl(fd, SIOCGIFMTU, &request);
	close(fd);
	return err ? 0 : (unsigned)request.ifr_mtu;
}

bool frames_are_allowed(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void devices_look(struct ibv_device *device, struct device_view *v)
{
	struct ibv_context *context;
	ssize_t n;

	*v = (struct device_view){0};
	snprintf(v->name, sizeof(v->name), "%s", device->name);
	context = library.open_device(device);
	if (!context)
		return;
	library.query_port(context, 1, &v->port);
	n = library.query_gid_table(context, v->gid, DEVICE_GIDS, 0, sizeof(v->gid[0]));
	v->gids = n > 0 ? (int)n : 0;
	for (int i = 0; i < v->gids && !*v->interface; i++)
		if (v->gid[i].ndev_ifindex)
			if_indextoname(v->gid[i].ndev_ifindex, v->interface);
	v->interface_mtu = interface_mtu(v->interface);
	library.close_device(context);
}

int devices_view(struct device_view **views, const char **why)
{
	struct ibv_device **list;
	int count = 0;

	*views = NULL;
	*why = library_open();
	if (*why)
		return -1;
	list = library.get_device_list(&count);
	if (!list) {
		*why = strerror(errno);
		return errno == ENOSYS || errno == ENODEV ? 0 : -1;
	}
	*views = calloc((size_t)count + 1, sizeof(**views));
	for (int i = 0; *views && i < count; i++)
		devices_look(list[i], &(*views)[i]);
	library.free_device_list(list);
	return *views ? count : -1;
}

/* The way between programs of one user that both have this address. */
static enum same_host_way way_of(const struct device_view *v, const union ibv_gid *address, const struct same_host *h)
{
	struct holder holder = holder_of(address);

	if (v->port.state != IBV_PORT_ACTIVE || holder.kernel || holder.stranger ||
	    (holder.sockets && holder.uid != geteuid()))
		return SAME_HOST_NONE;
	return h->way;
}

static void print_device(const struct device_view *v, const struct same_host *h)
{
	static const char *const state[] = {"NO STATE", "DOWN", "INIT", "ARMED", "ACTIVE", "DEFER"};
	unsigned s = v->port.state;
	bool active = s == IBV_PORT_ACTIVE;
	char mtu[16];

	snprintf(mtu, sizeof(mtu), "%u", v->interface_mtu);
	printf("%s%-7s%s %-9s %s%-6s%s %5s %8u", style(BOLD), v->name, style(PLAIN), v->interface,
	       style(active ? GREEN : YELLOW), s < ARRAY_SIZE(state) ? state[s] : "?", style(PLAIN), mtu,
	       v->port.active_mtu ? 128u << v->port.active_mtu : 0);
	for (int i = 0; i < v->gids; i++)
		printf("%*s %3u %-25s %s\n", i ? 39 : 0, "", v->gid[i].gid_index, gid_text(&v->gid[i].gid),
		       same_host_word(way_of(v, &v->gid[i].gid, h)));
	if (!v->gids)
		printf("     (no address)\n");
}

static const char *between_hosts(void)
{
	if (config_enum(CONFIG_LINK) == LINK_UDP)
		return "UDP";
	return frames_are_allowed() ? "Ethernet frames (UROCE_LINK=packet), UDP on other interfaces"
				    : "UDP, as UROCE_LINK=packet lacks CAP_NET_RAW";
}

/* Prints what the words in the last column mean. */
static void devices_explain(const struct device_view *views, int count, const struct same_host *h)
{
	const struct gpu_here gpu = gpu_here_look();
	bool none = false;

	for (int n = 0; n < count; n++)
		for (int i = 0; i < views[n].gids; i++)
			none |= way_of(&views[n], &views[n].gid[i].gid, h) == SAME_HOST_NONE;
	printf("\nOn this host, %s: %s.\n%s\n", same_host_word(h->way), same_host_says(h->way), same_host_why(h));
	printf("Between hosts: %s.\n", between_hosts());
	if (gpu.vendor)
		printf("Memory of a GPU (%s): the GPU copies it between processes of this host.\n", gpu.vendor);
	if (none)
		printf("%s: %s: another user, the kernel or a program without uroce has it, or its interface is "
		       "down.\n",
		       same_host_word(SAME_HOST_NONE), same_host_says(SAME_HOST_NONE));
}

void devices_print_line(FILE *to, const struct device_view *views, int count, unsigned columns)
{
	static const char begin[] = "uroce: devices:";
	unsigned at = (unsigned)fprintf(to, "%s", begin);

	for (int i = 0; i < count; i++) {
		const struct device_view *v = &views[i];
		char text[128];
		int length = snprintf(text, sizeof(text), " %s (%s, %s)", v->name, v->interface,
				      v->gids ? gid_text(&v->gid[0].gid) : "no address");

		/* room for ", 10 more" */
		if (i && at + (unsigned)length + (i + 1 < count ? 9 : 0) > columns) {
			fprintf(to, ", %d more", count - i);
			break;
		}
		at += (unsigned)length;
		fputs(text, to);
	}
	fprintf(to, "%s\n", count ? "" : " none (uroce doctor says why)");
}

int devices_command(const struct command *command, int argc, char **argv)
{
	struct device_view *views;
	struct same_host here;
	const char *why = NULL;
	int count;

	if (argc > 1)
		return wrong_usage(command, "unexpected argument '%s'", argv[1]);
	count = devices_view(&views, &why);
	if (count < 0)
		return complain(command, "%s", why);
	if (!count)
		return complain(command, "no network interface that is up has an address; `uroce doctor` says more");
	same_host_look(&here);
	printf("%s%-7s %-9s %-6s %5s %8s %3s %-25s %s%s\n", style(DIM), "DEVICE", "INTERFACE", "STATE", "MTU",
	       "PATH MTU", "GID", "ADDRESS", "SAME HOST", style(PLAIN));
	for (int i = 0; i < count; i++)
		print_device(&views[i], &here);
	devices_explain(views, count, &here);
	free(views);
	return EXIT_SUCCESS;
}
