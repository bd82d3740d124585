/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, ports and GIDs: which there are, what they are called, what they say of themselves. */
#include "verbs/fixture.h"
#include "loop/netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static bool own_namespace;

/* cmocka's skip() prints "not ok", which meson takes for a failure. */
static bool lacks_namespace(void)
{
	if (!own_namespace)
		print_message("# skipped: no namespace of its own\n");
	return !own_namespace;
}

/* The list that a setting gives, as names in one string; what is said on stderr goes to `said`. */
static void list_names(const char *setting, char *names, char *said, size_t size)
{
	int out = dup(STDERR_FILENO), count, pipes[2];
	struct ibv_device **list;
	ssize_t got;

	setenv("UROCE_DEVICES", setting, 1);
	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	dup2(pipes[1], STDERR_FILENO);
	list = ibv_get_device_list(&count);
	dup2(out, STDERR_FILENO);
	close(out);
	got = read(pipes[0], said, size - 1);
	said[got > 0 ? got : 0] = 0;
	close(pipes[0]);
	close(pipes[1]);
	*names = 0;
	for (int i = 0; i < count; i++)
		sprintf(names + strlen(names), "%s%s", i ? " " : "", ibv_get_device_name(list[i]));
	assert_null(list[count]);
	ibv_free_device_list(list);
}

static void UROCE_DEVICES_says_which(void **state)
{
	static const struct {
		const char *setting, *names, *said;
	} rows[] = {
		{"lo=mlx5_0", "mlx5_0", NULL},
		{"lo=mlx5_0,uc1=mlx5_1", "mlx5_0 mlx5_1", NULL},
		{"uc1=mlx5_1,lo=mlx5_0", "mlx5_1 mlx5_0", NULL},
		{"", "uroce1 uroce0", NULL}, /* all, loopback last; that has been uroce0 since it was opened */
		{"nothere=x,lo=mlx5_0", "mlx5_0",
		 "'nothere=x' gives no device: there is no such network interface (see: ip link); usable interfaces: "
		 "uc1 lo"},
		{"uc2=x", "", "is down"},
		{"lo=mlx5_0,uc1=mlx5_0", "mlx5_0", "has this device name already"},
		{"lo=", "", "1 to 63 characters"},
		{"lo=../x", "", "1 to 63 characters"},
		{"127.0.0.1=a,127.0.0.2=b", "a b", NULL},
		{"127.0.0.1..127.0.0.3=rail9", "rail9 rail10 rail11", NULL},
		{"127.0.0.1..127.0.0.2=r@0..1,10.9.8.7=r9@3", "r0 r1 r9", NULL},
		{"127.0.0.2..127.0.0.1=r", "", "the last address of the range"},
		{"127.0.0.1..127.0.9.1=r", "", "too many addresses"},
		{"lo..uc1=r", "", "'..' must stand between two addresses"},
		{"127.0.0.1=r@", "", "the number of a NUMA node"},
		{"127.0.0.1=r@1..0", "", "the number of a NUMA node"},
		{"10.9.8.6=r", "", "no network interface has this address"},
	};
	char names[256], said[512];

	if (lacks_namespace())
		return;
	assert_true(ip("link add uc1 type veth peer name uc2"));
	assert_true(ip("addr add 10.9.8.7/24 dev uc1") && ip("link set uc1 up"));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		list_names(rows[i].setting, names, said, sizeof(said));
		assert_string_equal(names, rows[i].names);
		if (rows[i].said)
			assert_non_null(strstr(said, rows[i].said));
		else
			assert_string_equal(said, "");
		list_names(rows[i].setting, names, said, sizeof(said));
		assert_string_equal(said, ""); /* once is enough */
	}
	assert_true(ip("link del uc1"));
}

/* Each row: the first four GIDs of an interface with an IPv4 address and two of IPv6: 4, 6, local, or none. */
static void UROCE_GID_ORDER_says_in_which_order(void **state)
{
	static const struct {
		const char *order, *gids;
	} rows[] = {
		{"", "46l-"},
		{"local,ipv4", "l46-"},		     /* as rxe has it */
		{"local,local,ipv4,ipv4", "ll446-"}, /* as adapters have it, which have RoCE v1 as well */
		{"ipv4,ipv4", "446l-"},
		{"ipv6", "64l-"},
		{"ipv7,ipv6", "46l-"}, /* not allowed: as if unset */
	};

	if (lacks_namespace() || !netns_has_ipv6())
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char name[8], words[128], gids[8] = "";
		struct ibv_context *other;
		struct ibv_device **list;
		union ibv_gid gid;

		snprintf(name, sizeof(name), "ug%zu", i);
		snprintf(words, sizeof(words), "link add %s type veth peer name uc2", name);
		assert_true(ip(words));
		snprintf(words, sizeof(words), "addr add 10.9.8.7/24 dev %s", name);
		assert_true(ip(words));
		snprintf(words, sizeof(words), "addr add fd00::7/64 dev %s nodad", name);
		assert_true(ip(words));
		snprintf(words, sizeof(words), "addr add fe80::7/64 dev %s nodad", name);
		assert_true(ip(words));
		snprintf(words, sizeof(words), "link set %s addrgenmode none", name);
		assert_true(ip(words));
		snprintf(words, sizeof(words), "link set %s up", name);
		assert_true(ip(words));
		setenv("UROCE_GID_ORDER", rows[i].order, 1);
		setenv("UROCE_DEVICES", name, 1);
		assert_non_null(list = ibv_get_device_list(NULL));
		assert_non_null(list[0]);
		setenv("UROCE_DEVICES", "lo", 1);
		assert_non_null(other = ibv_open_device(list[0]));
		ibv_free_device_list(list);
		for (size_t n = 0; n < strlen(rows[i].gids); n++) {
			static const union ibv_gid none, mapped = {.raw = {[10] = 0xff, 0xff}};

			assert_int_equal(ibv_query_gid(other, 1, (int)n, &gid), 0);
			gids[n] = !memcmp(&gid, &none, 16)     ? '-'
				  : !memcmp(&gid, &mapped, 12) ? '4'
				  : gid.raw[0] == 0xfe	       ? 'l'
							       : '6';
		}
		assert_string_equal(gids, rows[i].gids);
		assert_int_equal(ibv_close_device(other), 0);
		assert_true(ip("link del uc2"));
	}
	unsetenv("UROCE_GID_ORDER");
}

static struct ibv_ah_attr address_of(const char *text)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1};
	struct in6_addr to;
	char mapped[64];

	snprintf(mapped, sizeof(mapped), "%s%s", strchr(text, ':') ? "" : "::ffff:", text);
	assert_int_equal(inet_pton(AF_INET6, mapped, &to), 1);
	memcpy(&a.grh.dgid, &to, sizeof(to));
	return a;
}

/* ibv_resolve_eth_l2_from_gid() */
static void frames_to_an_address_have_a_mac_address(void **state)
{
	static const struct {
		const char *to, *mac;
		int error;
	} rows[] = {
		{"10.9.8.9", "02:00:00:00:00:09", 0},  /* a local peer */
		{"10.20.1.1", "02:00:00:00:00:09", 0}, /* by that one */
		{"10.9.8.7", "02:00:00:00:00:07", 0},  /* ours */
		{"239.129.2.3", "01:00:5e:01:02:03", 0},
		{"10.9.8.50", NULL, EHOSTUNREACH}, /* nobody answers */
		{"fd00::9", NULL, EINVAL},	   /* we have no such address ourselves */
	};
	struct ibv_context *other;
	struct ibv_device **list;
	uint16_t vlan;

	if (lacks_namespace())
		return;
	assert_true(ip("link add uc1 address 02:00:00:00:00:07 type veth peer name uc2") && ip("link set uc2 up"));
	assert_true(ip("addr add 10.9.8.7/24 dev uc1") && ip("link set uc1 up"));
	assert_true(ip("neigh add 10.9.8.9 lladdr 02:00:00:00:00:09 dev uc1 nud permanent"));
	assert_true(ip("route add 10.20.0.0/16 via 10.9.8.9"));
	setenv("UROCE_DEVICES", "uc1", 1);
	assert_non_null(list = ibv_get_device_list(NULL));
	setenv("UROCE_DEVICES", "lo", 1);
	assert_non_null(other = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_ah_attr to = address_of(rows[i].to);
		uint8_t mac[ETHERNET_LL_SIZE];
		char text[32];

		assert_int_equal(ibv_resolve_eth_l2_from_gid(other, &to, mac, &vlan), rows[i].error);
		if (rows[i].error)
			continue;
		snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
			 mac[5]);
		assert_string_equal(text, rows[i].mac);
		assert_int_equal(vlan, 0xffff);
	}
	assert_int_equal(ibv_close_device(other), 0);
	assert_true(ip("link del uc1"));
}

/* ulimit -f 0: a signal would end the program. */
static void a_device_opens_where_no_file_may_be_written(void **state)
{
	struct rlimit old, limit;
	struct ibv_context *second;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = (struct rlimit){0, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	second = ibv_open_device(context->device);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_non_null(second);
	assert_int_equal(ibv_close_device(second), 0);
}

static void no_device_is_an_empty_list(void **state)
{
	struct ibv_device **list;
	int count = -1;

	setenv("UROCE_DEVICES", ",", 1);
	list = ibv_get_device_list(&count);
	setenv("UROCE_DEVICES", "lo", 1);
	assert_non_null(list);
	assert_null(list[0]);
	assert_int_equal(count, 0);
	ibv_free_device_list(list);
}

static void a_device_has_its_names(void **state)
{
	struct ibv_device *d = context->device;
	char path[512];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", d->name);
	assert_string_equal(d->ibdev_path, path);
	assert_memory_equal(d->dev_name, "uverbs", 6);
	assert_int_equal(d->node_type, IBV_NODE_CA);
	assert_int_equal(d->transport_type, IBV_TRANSPORT_IB);
	assert_true(ibv_get_device_index(d) > 0);
	assert_true(ibv_get_device_guid(d) != 0);
	assert_null(ibv_open_device(NULL));
}

static void a_port_answers_for_port_1_only(void **state)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(port.active_mtu, IBV_MTU_4096);
	assert_int_equal(port.lid, 0);
	assert_int_equal(port.pkey_tbl_len, 1);
	assert_int_equal(ibv_query_port(context, 0, &port), EINVAL);
	assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);
	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	assert_int_equal(ibv_query_gid(context, 2, 0, &gid), -1);
	assert_int_equal(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
	assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid(context, 1, port.gid_tbl_len - 1, &gid), 0);
	assert_memory_equal(&gid, &(union ibv_gid){0}, sizeof(gid)); /* empty is zeros, not an error */
	assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
	assert_int_equal(ibv_get_pkey_index(context, 1, 0xffff), 0);
	assert_int_equal(ibv_get_pkey_index(context, 1, 0x1234), -1);
}

static void gid_entries_say_where_they_are_from(void **state)
{
	struct ibv_gid_entry e, table[64];
	ssize_t n = ibv_query_gid_table(context, table, 64, 0);

	assert_true(n >= 1);
	for (ssize_t i = 0; i < n; i++) {
		assert_int_equal(table[i].port_num, 1);
		assert_int_equal(table[i].gid_type, IBV_GID_TYPE_ROCE_V2);
		assert_int_equal(ibv_query_gid_ex(context, 1, table[i].gid_index, &e, 0), 0);
		assert_memory_equal(&e, &table[i], sizeof(e));
	}
	assert_int_equal(ibv_query_gid_table(context, table, n - 1, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, 63, &e, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(context, 1, 64, &e, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 2, 0, &e, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, 0, &e, 1), EOPNOTSUPP);
}

static enum ibv_event_type next_event(void)
{
	struct ibv_async_event e;

	assert_int_equal(ibv_get_async_event(context, &e), 0);
	assert_int_equal(e.element.port_num, 1);
	ibv_ack_async_event(&e);
	return e.event_type;
}

static int find_gid(const char *last_bytes)
{
	union ibv_gid gid;

	for (int i = 0; i < 64; i++) {
		assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
		if (memcmp(gid.raw + 12, last_bytes, 4) == 0)
			return i;
	}
	return -1;
}

static void gids_follow_the_addresses(void **state)
{
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
	int kept, first;

	if (lacks_namespace())
		return;
	assert_true(ip("addr add 10.1.1.1/32 dev lo"));
	assert_int_equal(poll(&fd, 1, -1), 1); /* a program that only polls the fd is told as well */
	assert_int_equal(next_event(), IBV_EVENT_GID_CHANGE);
	first = find_gid("\x0a\x01\x01\x01");
	assert_true(first > 0);
	assert_true(ip("addr add 10.1.1.2/32 dev lo"));
	assert_int_equal(next_event(), IBV_EVENT_GID_CHANGE);
	kept = find_gid("\x0a\x01\x01\x02");
	assert_true(ip("addr del 10.1.1.1/32 dev lo"));
	assert_int_equal(next_event(), IBV_EVENT_GID_CHANGE);
	assert_int_equal(find_gid("\x0a\x01\x01\x01"), -1);
	assert_int_equal(find_gid("\x0a\x01\x01\x02"), kept); /* an index goes on meaning the same address */
	assert_true(ip("addr add 10.1.1.3/32 dev lo"));
	assert_int_equal(next_event(), IBV_EVENT_GID_CHANGE);
	assert_int_equal(find_gid("\x0a\x01\x01\x03"), first);
	assert_true(ip("addr del 10.1.1.2/32 dev lo"));
	assert_int_equal(next_event(), IBV_EVENT_GID_CHANGE);
	assert_true(ip("addr del 10.1.1.3/32 dev lo"));
	assert_int_equal(next_event(), IBV_EVENT_GID_CHANGE);
}

static void the_port_follows_the_interface(void **state)
{
	struct ibv_port_attr port;
	enum ibv_event_type e;

	if (lacks_namespace())
		return;
	assert_true(ip("link set lo down"));
	do
		e = next_event();
	while (e == IBV_EVENT_GID_CHANGE); /* a down loopback loses addresses too */
	assert_int_equal(e, IBV_EVENT_PORT_ERR);
	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	assert_true(ip("link set lo up"));
	do
		e = next_event();
	while (e == IBV_EVENT_GID_CHANGE);
	assert_int_equal(e, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
}

static void async_events_honour_O_NONBLOCK(void **state)
{
	int flags = fcntl(context->async_fd, F_GETFL);
	struct ibv_async_event e;

	fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK);
	do /* what the tests before left behind */
		errno = 0;
	while (ibv_get_async_event(context, &e) == 0);
	assert_int_equal(errno, EAGAIN);
	fcntl(context->async_fd, F_SETFL, flags);
}

static void addresses_are_checked(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	union ibv_gid gid, other = {.raw = {0xfd, [15] = 1}};
	struct ibv_ah_attr good = {.is_global = 1, .port_num = 1}, a;
	struct ibv_ah *ah;

	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	good.grh.dgid = gid;
	assert_non_null(ah = ibv_create_ah(pd, &good));
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);

	a = good;
	a.grh.sgid_index = 255; /* -1 */
	assert_errno(ibv_create_ah(pd, &a), EINVAL);
	a = good;
	a.port_num = 2;
	assert_errno(ibv_create_ah(pd, &a), EINVAL);
	a = good;
	a.grh.sgid_index = 63;
	assert_errno(ibv_create_ah(pd, &a), ENODATA);
	a = good;
	a.grh.dgid = other; /* IPv6 from IPv4 */
	assert_errno(ibv_create_ah(pd, &a), EINVAL);
	a = good;
	a.grh.dgid = (union ibv_gid){0};
	assert_errno(ibv_create_ah(pd, &a), EINVAL);
	a = (struct ibv_ah_attr){.port_num = 1};
	assert_errno(ibv_create_ah(pd, &a), EINVAL);
	a.dlid = 1; /* no GRH */
	assert_errno(ibv_create_ah(pd, &a), EINVAL);
	assert_errno(ibv_create_ah(NULL, &good), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void an_address_is_made_from_a_completion(void **state)
{
	/* the 40 bytes before a datagram: 20 unused, then an IPv4 header */
	unsigned char grh[40] = {[20] = 0x45, 0x20, [28] = 64, 17, [32] = 127, 0, 0, 9, 127, 0, 0, 1};
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_ah_attr a;
	union ibv_gid from = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 9}};

	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, (void *)grh, &a), 0);
	assert_int_equal(a.is_global, 1);
	assert_int_equal(a.port_num, 1);
	assert_int_equal(a.grh.sgid_index, 0);
	assert_int_equal(a.grh.traffic_class, 0x20);
	assert_memory_equal(&a.grh.dgid, &from, sizeof(from));
	grh[39] = 77; /* not an address of ours */
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, (void *)grh, &a), -1);
}

static void sysfs_files_are_answered(void **state)
{
	const char *dir = context->device->ibdev_path;
	char text[64];

	extern int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
	assert_int_equal(ibv_read_sysfs_file(dir, "board_id", text, sizeof(text)), 5);
	assert_string_equal(text, "uroce");
	assert_int_equal(ibv_read_sysfs_file(dir, "nothing", text, sizeof(text)), -1);
	assert_true(ibv_read_sysfs_file("/proc/self", "comm", text, sizeof(text)) > 0);
	assert_null(strchr(text, '\n'));
	assert_int_equal(ibv_read_sysfs_file("/proc/self", "nothing", text, sizeof(text)), -1);
}

static void names_and_rates_convert(void **state)
{
	assert_string_equal(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
	assert_string_equal(ibv_wc_status_str(99), "unknown");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_GID_CHANGE), "GID table change");
	assert_string_equal(ibv_port_state_str(-1), "unknown");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	for (int rate = IBV_RATE_2_5_GBPS; rate <= (int)IBV_RATE_1200_GBPS; rate++) {
		assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
		if (ibv_rate_to_mult(rate) > 0)
			assert_int_equal(mult_to_ibv_rate(ibv_rate_to_mult(rate)), rate);
	}
	assert_int_equal(ibv_rate_to_mbps(77), -1);
	assert_int_equal(mbps_to_ibv_rate(1), IBV_RATE_MAX);
	assert_int_equal(ibv_fork_init(), 0);
}

static void what_is_not_built_says_so(void **state)
{
	struct ibv_flow_action_esp_attr esp = {0};

	assert_errno(ibv_create_flow_action_esp(context, &esp), EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_has_its_names),
		cmocka_unit_test(a_port_answers_for_port_1_only),
		cmocka_unit_test(gid_entries_say_where_they_are_from),
		cmocka_unit_test(gids_follow_the_addresses),
		cmocka_unit_test(the_port_follows_the_interface),
		cmocka_unit_test(async_events_honour_O_NONBLOCK),
		cmocka_unit_test(addresses_are_checked),
		cmocka_unit_test(an_address_is_made_from_a_completion),
		cmocka_unit_test(sysfs_files_are_answered),
		cmocka_unit_test(names_and_rates_convert),
		cmocka_unit_test(what_is_not_built_says_so),
		cmocka_unit_test(a_device_opens_where_no_file_may_be_written),
		cmocka_unit_test(no_device_is_an_empty_list),
		cmocka_unit_test(UROCE_DEVICES_says_which),
		cmocka_unit_test(UROCE_GID_ORDER_says_in_which_order),
		cmocka_unit_test(frames_to_an_address_have_a_mac_address),
	};

	own_namespace = enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
