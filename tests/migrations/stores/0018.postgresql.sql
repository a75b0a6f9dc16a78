CREATE FUNCTION public.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'a committed block never changes'; END $$;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.arrival (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    process character varying(16) NOT NULL,
    requests integer NOT NULL,
    seed bigint NOT NULL,
    cv double precision NOT NULL,
    trace_sha256 character varying(64)
);
COMMENT ON TABLE public.arrival IS 'streams of requests at one a second, whatever rate they are played at';
COMMENT ON COLUMN public.arrival.id IS 'integer key [none]';
COMMENT ON COLUMN public.arrival.key IS 'content key of the process [sha256]';
COMMENT ON COLUMN public.arrival.process IS 'poisson, constant, gamma or trace [none]';
COMMENT ON COLUMN public.arrival.requests IS 'how many arrive [requests]';
COMMENT ON COLUMN public.arrival.seed IS 'of all that is drawn [none]';
COMMENT ON COLUMN public.arrival.cv IS 'standard deviation of the gaps over their mean [ratio]';
COMMENT ON COLUMN public.arrival.trace_sha256 IS 'digest of a trace''s file [sha256]';
CREATE SEQUENCE public.arrival_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.arrival_id_seq OWNED BY public.arrival.id;
CREATE TABLE public.block (
    id bigint NOT NULL,
    scenario_id bigint NOT NULL,
    first_batch_size integer NOT NULL,
    last_batch_size integer NOT NULL,
    probe_count integer NOT NULL,
    sweep_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    digest character varying(64),
    CONSTRAINT ck_block_interval CHECK ((last_batch_size >= first_batch_size))
);
COMMENT ON TABLE public.block IS 'probes of one scenario over one batch interval, committed together';
COMMENT ON COLUMN public.block.id IS 'integer key, ascending in time of commit [none]';
COMMENT ON COLUMN public.block.scenario_id IS 'whose probes [none]';
COMMENT ON COLUMN public.block.first_batch_size IS 'smallest batch size [requests]';
COMMENT ON COLUMN public.block.last_batch_size IS 'largest batch size [requests]';
COMMENT ON COLUMN public.block.probe_count IS 'probes of the block [probes]';
COMMENT ON COLUMN public.block.sweep_id IS 'the sweep that added it [none]';
COMMENT ON COLUMN public.block.created_at IS 'when it was committed [UTC]';
COMMENT ON COLUMN public.block.digest IS 'over every number of the block, as committed [sha256]';
CREATE SEQUENCE public.block_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.block_id_seq OWNED BY public.block.id;
CREATE TABLE public.calibration (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    device_name character varying(200) NOT NULL,
    version integer NOT NULL,
    spec text NOT NULL,
    errors text NOT NULL,
    kernels bytea,
    source text NOT NULL,
    created_at timestamp with time zone NOT NULL
);
COMMENT ON TABLE public.calibration IS 'fitted device coefficients';
COMMENT ON COLUMN public.calibration.id IS 'integer key [none]';
COMMENT ON COLUMN public.calibration.key IS 'content key of the coefficients [sha256]';
COMMENT ON COLUMN public.calibration.device_name IS 'device it describes [none]';
COMMENT ON COLUMN public.calibration.version IS 'counts up for a device [none]';
COMMENT ON COLUMN public.calibration.spec IS 'coefficients with units in their names [JSON]';
COMMENT ON COLUMN public.calibration.errors IS 'held-out error per kind, in percent [JSON]';
COMMENT ON COLUMN public.calibration.kernels IS 'measured kernel table [Parquet]';
COMMENT ON COLUMN public.calibration.source IS 'where the measurements come from [none]';
COMMENT ON COLUMN public.calibration.created_at IS 'when it was stored [UTC]';
CREATE SEQUENCE public.calibration_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.calibration_id_seq OWNED BY public.calibration.id;
CREATE TABLE public.composition (
    scenario_id bigint NOT NULL,
    batch_size integer NOT NULL,
    bin_index integer NOT NULL,
    samples integer NOT NULL
);
COMMENT ON TABLE public.composition IS 'requests of each length bin in a probe''s batch';
COMMENT ON COLUMN public.composition.scenario_id IS 'its scenario [none]';
COMMENT ON COLUMN public.composition.batch_size IS 'batch size of the probe [requests]';
COMMENT ON COLUMN public.composition.bin_index IS 'bin of the workload [none]';
COMMENT ON COLUMN public.composition.samples IS 'requests of the bin in one replica [requests]';
CREATE TABLE public.device (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    name character varying(200) NOT NULL,
    vendor character varying(200) NOT NULL,
    family character varying(16) NOT NULL,
    matrix_flops_per_s double precision NOT NULL,
    vector_flops_per_s double precision NOT NULL,
    memory_bytes bigint NOT NULL,
    memory_bandwidth_bytes_per_s double precision NOT NULL,
    grid character varying(200) NOT NULL,
    link_bandwidths character varying(200) NOT NULL,
    calibration_key character varying(64),
    spec text NOT NULL
);
COMMENT ON TABLE public.device IS 'device profile snapshots';
COMMENT ON COLUMN public.device.id IS 'integer key [none]';
COMMENT ON COLUMN public.device.key IS 'content key of the profile, calibration included [sha256]';
COMMENT ON COLUMN public.device.name IS 'profile name [none]';
COMMENT ON COLUMN public.device.vendor IS 'who makes it [none]';
COMMENT ON COLUMN public.device.family IS 'theoretical, calibrated or empirical [none]';
COMMENT ON COLUMN public.device.matrix_flops_per_s IS 'effective bf16 matrix rate [FLOP/s]';
COMMENT ON COLUMN public.device.vector_flops_per_s IS 'effective bf16 vector rate [FLOP/s]';
COMMENT ON COLUMN public.device.memory_bytes IS 'device memory [bytes]';
COMMENT ON COLUMN public.device.memory_bandwidth_bytes_per_s IS 'effective bandwidth [bytes/s]';
COMMENT ON COLUMN public.device.grid IS 'interconnect grid, outermost first [devices]';
COMMENT ON COLUMN public.device.link_bandwidths IS 'effective bandwidth of each grid level [bytes/s]';
COMMENT ON COLUMN public.device.calibration_key IS 'calibration used [sha256]';
COMMENT ON COLUMN public.device.spec IS 'canonical profile [JSON]';
CREATE SEQUENCE public.device_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.device_id_seq OWNED BY public.device.id;
CREATE VIEW public.devices AS
 SELECT device.id,
    device.key,
    device.name,
    device.vendor,
    device.family,
    device.matrix_flops_per_s,
    device.vector_flops_per_s,
    device.memory_bytes,
    device.memory_bandwidth_bytes_per_s,
    device.grid,
    device.link_bandwidths,
    device.calibration_key,
    device.spec
   FROM public.device;
CREATE TABLE public.load (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    scenario_id bigint NOT NULL,
    arrival_id bigint NOT NULL,
    sweep_id bigint NOT NULL,
    settings_key character varying(64) NOT NULL,
    arrivals_per_s double precision NOT NULL,
    saturation_per_s double precision NOT NULL,
    play_seats integer NOT NULL,
    kv_tokens bigint NOT NULL,
    kv_admission character varying(16) NOT NULL,
    dispatch character varying(16) NOT NULL,
    reject_ms double precision,
    counted_requests integer NOT NULL,
    rejected integer NOT NULL,
    preempted integer NOT NULL,
    load_status character varying(16) NOT NULL,
    in_flight double precision NOT NULL,
    busy_share double precision NOT NULL,
    generated_per_s double precision NOT NULL,
    ttft_mean_ms double precision NOT NULL,
    load_tpot_mean_ms double precision NOT NULL,
    outside_ms double precision NOT NULL,
    created_at timestamp with time zone NOT NULL,
    hit_rate double precision,
    prefill_policy character varying(16),
    pool_instances integer,
    cache_blocks bigint,
    balance_threshold double precision,
    rejected_prompt_share double precision,
    reject_tbt_ms double precision,
    trace_caches character varying(120),
    device_prefix_share double precision,
    host_prefix_share double precision,
    ssd_prefix_share double precision,
    remote_prefix_share double precision,
    CONSTRAINT ck_load_load_status CHECK (((load_status)::text = ANY ((ARRAY['stable'::character varying, 'saturated'::character varying])::text[])))
);
COMMENT ON TABLE public.load IS 'scenarios played at a rate of requests that arrive';
COMMENT ON COLUMN public.load.id IS 'integer key, ascending in time of commit [none]';
COMMENT ON COLUMN public.load.key IS 'content key of scenario, stream, settings and rate [sha256]';
COMMENT ON COLUMN public.load.scenario_id IS 'what was played [none]';
COMMENT ON COLUMN public.load.arrival_id IS 'its stream [none]';
COMMENT ON COLUMN public.load.sweep_id IS 'the sweep that added it [none]';
COMMENT ON COLUMN public.load.settings_key IS 'content key of all of that but the rate [sha256]';
COMMENT ON COLUMN public.load.arrivals_per_s IS 'offered to one instance [requests/s]';
COMMENT ON COLUMN public.load.saturation_per_s IS 'passed by one instance when all are there at the start [requests/s]';
COMMENT ON COLUMN public.load.play_seats IS 'most that a replica serves at once [requests]';
COMMENT ON COLUMN public.load.kv_tokens IS 'keys that a replica has room for [tokens]';
COMMENT ON COLUMN public.load.kv_admission IS 'current or reserved [none]';
COMMENT ON COLUMN public.load.dispatch IS 'random or least [none]';
COMMENT ON COLUMN public.load.reject_ms IS 'longest predicted TTFT that a request is let in with [ms]';
COMMENT ON COLUMN public.load.counted_requests IS 'after the warm-up, in five batches of equal size [requests]';
COMMENT ON COLUMN public.load.rejected IS 'of those counted [requests]';
COMMENT ON COLUMN public.load.preempted IS 'times that a request lost its keys [requests]';
COMMENT ON COLUMN public.load.load_status IS 'stable or saturated [none]';
COMMENT ON COLUMN public.load.in_flight IS 'mean number in one instance [requests]';
COMMENT ON COLUMN public.load.busy_share IS 'share of the time that a step runs [ratio]';
COMMENT ON COLUMN public.load.generated_per_s IS 'generated by one instance [tokens/s]';
COMMENT ON COLUMN public.load.ttft_mean_ms IS 'mean time of steps to the first token [ms]';
COMMENT ON COLUMN public.load.load_tpot_mean_ms IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN public.load.outside_ms IS 'part of each TTFT that no step takes, beside ttft_mean_ms and cells [ms]';
COMMENT ON COLUMN public.load.created_at IS 'when it was committed [UTC]';
COMMENT ON COLUMN public.load.hit_rate IS 'of prompt tokens that a prefix cache held; NULL: no cache was played [ratio]';
COMMENT ON COLUMN public.load.prefill_policy IS 'random, load, cache or mooncake; NULL: no pool was played [none]';
COMMENT ON COLUMN public.load.pool_instances IS 'of a pool, which arrivals_per_s is one''s part of [instances]';
COMMENT ON COLUMN public.load.cache_blocks IS 'that the prefix cache of each instance holds [blocks]';
COMMENT ON COLUMN public.load.balance_threshold IS 'best prefix over own, above which it is fetched [ratio]';
COMMENT ON COLUMN public.load.rejected_prompt_share IS 'of prompt tokens, those of rejected requests [ratio]';
COMMENT ON COLUMN public.load.reject_tbt_ms IS 'longest predicted time between tokens that a request is let in with [ms]';
COMMENT ON COLUMN public.load.trace_caches IS 'where prefixes of a log''s prompts were kept: device,host:400; NULL: shares, if any, were stated [none]';
COMMENT ON COLUMN public.load.device_prefix_share IS 'of a log''s prompt tokens, those found in devices; NULL: all new [ratio]';
COMMENT ON COLUMN public.load.host_prefix_share IS 'of a log''s prompt tokens, those found in the hosts'' memory; NULL: all new [ratio]';
COMMENT ON COLUMN public.load.ssd_prefix_share IS 'of a log''s prompt tokens, those found in the hosts'' SSDs; NULL: all new [ratio]';
COMMENT ON COLUMN public.load.remote_prefix_share IS 'of a log''s prompt tokens, those found in a remote store; NULL: all new [ratio]';
CREATE TABLE public.load_block (
    id bigint NOT NULL,
    scenario_id bigint NOT NULL,
    sweep_id bigint NOT NULL,
    settings_key character varying(64) NOT NULL,
    first_load bigint NOT NULL,
    last_load bigint NOT NULL,
    load_count integer NOT NULL,
    digest character varying(64) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT ck_load_block_loads CHECK ((last_load >= first_load))
);
COMMENT ON TABLE public.load_block IS 'loads of one scenario that were committed together';
COMMENT ON COLUMN public.load_block.id IS 'integer key, ascending in time of commit [none]';
COMMENT ON COLUMN public.load_block.scenario_id IS 'whose loads [none]';
COMMENT ON COLUMN public.load_block.sweep_id IS 'the sweep that added it [none]';
COMMENT ON COLUMN public.load_block.settings_key IS 'content key of all that its loads have in common [sha256]';
COMMENT ON COLUMN public.load_block.first_load IS 'smallest id of its loads [none]';
COMMENT ON COLUMN public.load_block.last_load IS 'largest id of its loads [none]';
COMMENT ON COLUMN public.load_block.load_count IS 'loads of the block [loads]';
COMMENT ON COLUMN public.load_block.digest IS 'over every number of its loads, as committed [sha256]';
COMMENT ON COLUMN public.load_block.created_at IS 'when it was committed [UTC]';
CREATE SEQUENCE public.load_block_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.load_block_id_seq OWNED BY public.load_block.id;
CREATE TABLE public.load_cell (
    load_id bigint NOT NULL,
    cells bytea NOT NULL
);
COMMENT ON TABLE public.load_cell IS 'joint distribution of TTFT and TPOT of a load, packed';
COMMENT ON COLUMN public.load_cell.load_id IS 'its load [none]';
COMMENT ON COLUMN public.load_cell.cells IS 'bins of TTFT and TPOT, and counts of five batches [none]';
CREATE SEQUENCE public.load_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.load_id_seq OWNED BY public.load.id;
CREATE TABLE public.load_request (
    load_id bigint NOT NULL,
    kept_requests integer NOT NULL,
    digest character varying(64) NOT NULL,
    requests bytea NOT NULL
);
COMMENT ON TABLE public.load_request IS 'every request of a load, packed, where they are kept';
COMMENT ON COLUMN public.load_request.load_id IS 'its load [none]';
COMMENT ON COLUMN public.load_request.kept_requests IS 'how many they are [requests]';
COMMENT ON COLUMN public.load_request.digest IS 'over the load''s key and every number of its requests [sha256]';
COMMENT ON COLUMN public.load_request.requests IS 'arrival, lengths, TTFT, TPOT, longest gap and preemptions of each [none]';
CREATE TABLE public.load_token (
    load_id bigint NOT NULL,
    gaps bytea NOT NULL
);
COMMENT ON TABLE public.load_token IS 'distribution of the time between tokens of a load, packed';
COMMENT ON COLUMN public.load_token.load_id IS 'its load [none]';
COMMENT ON COLUMN public.load_token.gaps IS 'bins, and counts of gaps [none]';
CREATE TABLE public.measured_requests (
    measurement_id bigint NOT NULL,
    asked_requests integer NOT NULL,
    failed_requests integer NOT NULL,
    requests bytea NOT NULL
);
COMMENT ON TABLE public.measured_requests IS 'requests of a measured point that has a log of them, packed';
COMMENT ON COLUMN public.measured_requests.measurement_id IS 'its point [none]';
COMMENT ON COLUMN public.measured_requests.asked_requests IS 'that the log has [requests]';
COMMENT ON COLUMN public.measured_requests.failed_requests IS 'of those, that got no whole answer [requests]';
COMMENT ON COLUMN public.measured_requests.requests IS 'when each was sent, its lengths, first token and end [none]';
CREATE TABLE public.measurement (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    source text NOT NULL,
    source_format character varying(64) NOT NULL,
    model character varying(500),
    device character varying(200),
    engine character varying(64),
    engine_version character varying(64),
    mode character varying(32),
    "precision" character varying(64),
    kv_precision character varying(64),
    num_devices integer,
    input_length double precision,
    output_length double precision,
    concurrency double precision,
    request_rate double precision,
    metrics text NOT NULL,
    definitions text NOT NULL,
    extra text NOT NULL,
    measured_at timestamp with time zone,
    imported_at timestamp with time zone NOT NULL,
    prefill_instances integer,
    prefill_tp integer,
    prefill_pp integer,
    prefill_dp integer,
    prefill_ep integer,
    prefill_moe_tp integer,
    prefill_moe_dp integer,
    prefill_batch_size double precision,
    decode_instances integer,
    decode_tp integer,
    decode_pp integer,
    decode_dp integer,
    decode_ep integer,
    decode_moe_tp integer,
    decode_moe_dp integer,
    decode_batch_size double precision,
    prefill_dcp integer,
    prefill_pcp integer,
    prefill_micro_batches integer,
    decode_dcp integer,
    decode_pcp integer,
    decode_micro_batches integer
);
COMMENT ON TABLE public.measurement IS 'measured serving points with their configuration';
COMMENT ON COLUMN public.measurement.id IS 'integer key [none]';
COMMENT ON COLUMN public.measurement.key IS 'content key [sha256]';
COMMENT ON COLUMN public.measurement.source IS 'file and line or id it came from [none]';
COMMENT ON COLUMN public.measurement.source_format IS 'reader that understood it [none]';
COMMENT ON COLUMN public.measurement.model IS 'model as the source names it [none]';
COMMENT ON COLUMN public.measurement.device IS 'device, our name where known [none]';
COMMENT ON COLUMN public.measurement.engine IS 'serving engine [none]';
COMMENT ON COLUMN public.measurement.engine_version IS 'its version [none]';
COMMENT ON COLUMN public.measurement.mode IS 'aggregated, disaggregated, prefill, decode [none]';
COMMENT ON COLUMN public.measurement."precision" IS 'weights, as the source names them [none]';
COMMENT ON COLUMN public.measurement.kv_precision IS 'KV cache, as the source names it [none]';
COMMENT ON COLUMN public.measurement.num_devices IS 'devices of everything that served it [devices]';
COMMENT ON COLUMN public.measurement.input_length IS 'prompt length [tokens]';
COMMENT ON COLUMN public.measurement.output_length IS 'generated length [tokens]';
COMMENT ON COLUMN public.measurement.concurrency IS 'requests in flight [requests]';
COMMENT ON COLUMN public.measurement.request_rate IS 'offered rate [requests/s]';
COMMENT ON COLUMN public.measurement.metrics IS 'measured values by our names with units [JSON]';
COMMENT ON COLUMN public.measurement.definitions IS 'how the source defines each metric [JSON]';
COMMENT ON COLUMN public.measurement.extra IS 'fields of the source we do not interpret [JSON]';
COMMENT ON COLUMN public.measurement.measured_at IS 'when measured [UTC]';
COMMENT ON COLUMN public.measurement.imported_at IS 'when imported [UTC]';
COMMENT ON COLUMN public.measurement.prefill_instances IS 'prefill side (aggregated: the same on both): instances of this side [instances]';
COMMENT ON COLUMN public.measurement.prefill_tp IS 'prefill side (aggregated: the same on both): tensor parallel size [devices]';
COMMENT ON COLUMN public.measurement.prefill_pp IS 'prefill side (aggregated: the same on both): pipeline stages [devices]';
COMMENT ON COLUMN public.measurement.prefill_dp IS 'prefill side (aggregated: the same on both): data parallel replicas [replicas]';
COMMENT ON COLUMN public.measurement.prefill_ep IS 'prefill side (aggregated: the same on both): expert parallel size [devices]';
COMMENT ON COLUMN public.measurement.prefill_moe_tp IS 'prefill side (aggregated: the same on both): tensor parallel size inside experts [devices]';
COMMENT ON COLUMN public.measurement.prefill_moe_dp IS 'prefill side (aggregated: the same on both): replicas of the expert group [replicas]';
COMMENT ON COLUMN public.measurement.prefill_batch_size IS 'prefill side: batch size [requests]';
COMMENT ON COLUMN public.measurement.decode_instances IS 'decode side (aggregated: the same on both): instances of this side [instances]';
COMMENT ON COLUMN public.measurement.decode_tp IS 'decode side (aggregated: the same on both): tensor parallel size [devices]';
COMMENT ON COLUMN public.measurement.decode_pp IS 'decode side (aggregated: the same on both): pipeline stages [devices]';
COMMENT ON COLUMN public.measurement.decode_dp IS 'decode side (aggregated: the same on both): data parallel replicas [replicas]';
COMMENT ON COLUMN public.measurement.decode_ep IS 'decode side (aggregated: the same on both): expert parallel size [devices]';
COMMENT ON COLUMN public.measurement.decode_moe_tp IS 'decode side (aggregated: the same on both): tensor parallel size inside experts [devices]';
COMMENT ON COLUMN public.measurement.decode_moe_dp IS 'decode side (aggregated: the same on both): replicas of the expert group [replicas]';
COMMENT ON COLUMN public.measurement.decode_batch_size IS 'decode side: batch size [requests]';
COMMENT ON COLUMN public.measurement.prefill_dcp IS 'prefill side (aggregated: the same on both): devices that share the tokens of a context [devices]';
COMMENT ON COLUMN public.measurement.prefill_pcp IS 'prefill side (aggregated: the same on both): groups that the new tokens of prompts are divided among [devices]';
COMMENT ON COLUMN public.measurement.prefill_micro_batches IS 'prefill side (aggregated: the same on both): parts of a batch, of which one exchanges tokens while another computes [batches]';
COMMENT ON COLUMN public.measurement.decode_dcp IS 'decode side (aggregated: the same on both): devices that share the tokens of a context [devices]';
COMMENT ON COLUMN public.measurement.decode_pcp IS 'decode side (aggregated: the same on both): groups that the new tokens of prompts are divided among [devices]';
COMMENT ON COLUMN public.measurement.decode_micro_batches IS 'decode side (aggregated: the same on both): parts of a batch, of which one exchanges tokens while another computes [batches]';
CREATE SEQUENCE public.measurement_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.measurement_id_seq OWNED BY public.measurement.id;
CREATE TABLE public.model (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    name character varying(200) NOT NULL,
    architecture character varying(200) NOT NULL,
    parameters bigint NOT NULL,
    active_parameters bigint NOT NULL,
    spec text NOT NULL
);
COMMENT ON TABLE public.model IS 'models, by normalised hyper-parameters';
COMMENT ON COLUMN public.model.id IS 'integer key [none]';
COMMENT ON COLUMN public.model.key IS 'content key of the hyper-parameters [sha256]';
COMMENT ON COLUMN public.model.name IS 'the name it was first asked by [none]';
COMMENT ON COLUMN public.model.architecture IS 'model_type of its config.json [none]';
COMMENT ON COLUMN public.model.parameters IS 'all weights [parameters]';
COMMENT ON COLUMN public.model.active_parameters IS 'weights a token visits [parameters]';
COMMENT ON COLUMN public.model.spec IS 'canonical hyper-parameters [JSON]';
CREATE TABLE public.model_alias (
    alias character varying(500) NOT NULL,
    model_id bigint NOT NULL
);
COMMENT ON TABLE public.model_alias IS 'names a model was asked by';
COMMENT ON COLUMN public.model_alias.alias IS 'id or path [none]';
COMMENT ON COLUMN public.model_alias.model_id IS 'the model [none]';
CREATE SEQUENCE public.model_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.model_id_seq OWNED BY public.model.id;
CREATE VIEW public.models AS
 SELECT model.id,
    model.key,
    model.name,
    model.architecture,
    model.parameters,
    model.active_parameters,
    model.spec
   FROM public.model;
CREATE TABLE public.operator_set (
    key character varying(64) NOT NULL,
    payload text NOT NULL,
    torch_version character varying(64) NOT NULL,
    created_at timestamp with time zone NOT NULL
);
COMMENT ON TABLE public.operator_set IS 'captured operators, so that torch is needed once';
COMMENT ON COLUMN public.operator_set.key IS 'content key of what was captured [sha256]';
COMMENT ON COLUMN public.operator_set.payload IS 'operators as closed forms [JSON]';
COMMENT ON COLUMN public.operator_set.torch_version IS 'torch that captured them [none]';
COMMENT ON COLUMN public.operator_set.created_at IS 'when they were captured [UTC]';
CREATE TABLE public.part (
    id bigint NOT NULL,
    name character varying(200) NOT NULL,
    folder text NOT NULL,
    bytes bigint NOT NULL,
    sha256 character varying(64) NOT NULL,
    row_count bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    retired_at timestamp with time zone
);
COMMENT ON TABLE public.part IS 'files that hold the probes of blocks; what no row here names is no part of the store';
COMMENT ON COLUMN public.part.id IS 'integer key [none]';
COMMENT ON COLUMN public.part.name IS 'file name, of its own for each attempt [none]';
COMMENT ON COLUMN public.part.folder IS 'where it was written [none]';
COMMENT ON COLUMN public.part.bytes IS 'size of the file [bytes]';
COMMENT ON COLUMN public.part.sha256 IS 'digest of the file [sha256]';
COMMENT ON COLUMN public.part.row_count IS 'probes of the blocks that it holds [probes]';
COMMENT ON COLUMN public.part.created_at IS 'when it was registered [UTC]';
COMMENT ON COLUMN public.part.retired_at IS 'when a compaction replaced it; NULL: in use [UTC]';
CREATE TABLE public.part_block (
    first_block bigint NOT NULL,
    last_block bigint NOT NULL,
    part_id bigint NOT NULL,
    CONSTRAINT ck_part_block_interval CHECK ((last_block >= first_block))
);
COMMENT ON TABLE public.part_block IS 'which part holds which blocks; the probes of other blocks are rows';
COMMENT ON COLUMN public.part_block.first_block IS 'from this block on [none]';
COMMENT ON COLUMN public.part_block.last_block IS 'to this one [none]';
COMMENT ON COLUMN public.part_block.part_id IS 'the part [none]';
CREATE TABLE public.part_claim (
    home character varying(60) NOT NULL,
    token character varying(32) NOT NULL,
    database text NOT NULL,
    claimed_at timestamp with time zone NOT NULL
);
COMMENT ON TABLE public.part_claim IS 'folders of parts that this database may change, by the database that said so: a copy is another';
COMMENT ON COLUMN public.part_claim.home IS 'name of the folder below the place of parts, or . for it [none]';
COMMENT ON COLUMN public.part_claim.token IS 'secret that the folder names, too, while it belongs to this database [hex]';
COMMENT ON COLUMN public.part_claim.database IS 'the database that said so: its file, or its server [none]';
COMMENT ON COLUMN public.part_claim.claimed_at IS 'when [UTC]';
CREATE TABLE public.part_file (
    name character varying(200) NOT NULL,
    footer character varying(64) NOT NULL,
    mtime_ns bigint,
    ctime_ns bigint,
    inode bigint
);
COMMENT ON TABLE public.part_file IS 'how files of parts, thinned ones too, were when they were named; where none is known the digest tells';
COMMENT ON COLUMN public.part_file.name IS 'file name [none]';
COMMENT ON COLUMN public.part_file.footer IS 'digest of the footer, which says where every column lies [sha256]';
COMMENT ON COLUMN public.part_file.mtime_ns IS 'when the content changed; NULL: the place keeps no such times [ns]';
COMMENT ON COLUMN public.part_file.ctime_ns IS 'when anything of the file changed, which nobody can set back [ns]';
COMMENT ON COLUMN public.part_file.inode IS 'number of the file on its disk [none]';
CREATE SEQUENCE public.part_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.part_id_seq OWNED BY public.part.id;
CREATE TABLE public.part_subject (
    part_id bigint NOT NULL,
    model_id bigint NOT NULL,
    workload_id bigint NOT NULL,
    phase character varying(16) NOT NULL,
    probes bigint NOT NULL
);
COMMENT ON TABLE public.part_subject IS 'what a part is about, for its compaction';
COMMENT ON COLUMN public.part_subject.part_id IS 'the part [none]';
COMMENT ON COLUMN public.part_subject.model_id IS 'the model [none]';
COMMENT ON COLUMN public.part_subject.workload_id IS 'what is served [none]';
COMMENT ON COLUMN public.part_subject.phase IS 'prefill, decode or aggregated [none]';
COMMENT ON COLUMN public.part_subject.probes IS 'how many of it [probes]';
CREATE TABLE public.part_thinned (
    part_id bigint NOT NULL,
    name character varying(200) NOT NULL,
    folder text NOT NULL,
    bytes bigint NOT NULL,
    sha256 character varying(64) NOT NULL,
    row_count bigint NOT NULL,
    rules integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);
COMMENT ON TABLE public.part_thinned IS 'files beside parts with those of their rows alone that can win; what they lack is in the part';
COMMENT ON COLUMN public.part_thinned.part_id IS 'the part [none]';
COMMENT ON COLUMN public.part_thinned.name IS 'file name, of its own for each attempt [none]';
COMMENT ON COLUMN public.part_thinned.folder IS 'where it was written [none]';
COMMENT ON COLUMN public.part_thinned.bytes IS 'size of the file [bytes]';
COMMENT ON COLUMN public.part_thinned.sha256 IS 'digest of the file [sha256]';
COMMENT ON COLUMN public.part_thinned.row_count IS 'probes that it holds [probes]';
COMMENT ON COLUMN public.part_thinned.rules IS 'version of the rules by which others were left out [none]';
COMMENT ON COLUMN public.part_thinned.created_at IS 'when it was registered [UTC]';
CREATE TABLE public.plan (
    id bigint NOT NULL,
    tp integer NOT NULL,
    pp integer NOT NULL,
    dp integer NOT NULL,
    ep integer NOT NULL,
    moe_tp integer NOT NULL,
    moe_dp integer NOT NULL,
    num_devices integer NOT NULL,
    dcp integer DEFAULT 1 NOT NULL,
    redundant_experts integer DEFAULT 0 NOT NULL,
    pcp integer DEFAULT 1 NOT NULL,
    micro_batches integer DEFAULT 1 NOT NULL,
    encoder_devices integer DEFAULT 0 NOT NULL
);
COMMENT ON TABLE public.plan IS 'parallel splits of one instance';
COMMENT ON COLUMN public.plan.id IS 'integer key [none]';
COMMENT ON COLUMN public.plan.tp IS 'tensor parallel size [devices]';
COMMENT ON COLUMN public.plan.pp IS 'pipeline stages [devices]';
COMMENT ON COLUMN public.plan.dp IS 'data parallel replicas [replicas]';
COMMENT ON COLUMN public.plan.ep IS 'expert parallel size [devices]';
COMMENT ON COLUMN public.plan.moe_tp IS 'tensor parallel size inside experts [devices]';
COMMENT ON COLUMN public.plan.moe_dp IS 'replicas of the expert group [replicas]';
COMMENT ON COLUMN public.plan.num_devices IS 'devices of one instance: tp x pp x dp x pcp, and those that encode for it [devices]';
COMMENT ON COLUMN public.plan.dcp IS 'devices that share the tokens of a context [devices]';
COMMENT ON COLUMN public.plan.redundant_experts IS 'copies of experts in a layer beside them [experts]';
COMMENT ON COLUMN public.plan.pcp IS 'groups that the new tokens of prompts are divided among [devices]';
COMMENT ON COLUMN public.plan.micro_batches IS 'parts of a batch, of which one exchanges tokens while another computes [batches]';
COMMENT ON COLUMN public.plan.encoder_devices IS 'devices of their own that encode images for an instance [devices]';
CREATE SEQUENCE public.plan_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.plan_id_seq OWNED BY public.plan.id;
CREATE TABLE public."precision" (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    linear_quantization character varying(32) NOT NULL,
    experts_quantization character varying(32) NOT NULL,
    attention_quantization character varying(32) NOT NULL,
    mxfp4_group_size integer NOT NULL,
    spec text NOT NULL,
    mixers_quantization character varying(32),
    head_quantization character varying(32),
    drafts_quantization character varying(32)
);
COMMENT ON TABLE public."precision" IS 'number formats';
COMMENT ON COLUMN public."precision".id IS 'integer key [none]';
COMMENT ON COLUMN public."precision".key IS 'content key [sha256]';
COMMENT ON COLUMN public."precision".linear_quantization IS 'format of linears [none]';
COMMENT ON COLUMN public."precision".experts_quantization IS 'format of experts [none]';
COMMENT ON COLUMN public."precision".attention_quantization IS 'format of the KV cache [none]';
COMMENT ON COLUMN public."precision".mxfp4_group_size IS 'weights sharing one MXFP4 scale [weights]';
COMMENT ON COLUMN public."precision".spec IS 'canonical form [JSON]';
COMMENT ON COLUMN public."precision".mixers_quantization IS 'format of what mixes tokens; NULL: as linears [none]';
COMMENT ON COLUMN public."precision".head_quantization IS 'format of the vocabulary head; NULL: 16 bits [none]';
COMMENT ON COLUMN public."precision".drafts_quantization IS 'format of layers that draft; NULL: as others [none]';
CREATE SEQUENCE public.precision_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.precision_id_seq OWNED BY public."precision".id;
CREATE TABLE public.price (
    device_name character varying(200) NOT NULL,
    effective_from character varying(10) NOT NULL,
    usd_per_device_hour double precision,
    watts_per_device double precision,
    source text NOT NULL
);
COMMENT ON TABLE public.price IS 'dated device prices and power; joined when asked, never stored in a probe';
COMMENT ON COLUMN public.price.device_name IS 'device by name [none]';
COMMENT ON COLUMN public.price.effective_from IS 'valid from [ISO date]';
COMMENT ON COLUMN public.price.usd_per_device_hour IS 'price [USD/h]';
COMMENT ON COLUMN public.price.watts_per_device IS 'power draw [W]';
COMMENT ON COLUMN public.price.source IS 'where the figures come from [none]';
CREATE VIEW public.prices AS
 SELECT price.device_name,
    price.effective_from,
    price.usd_per_device_hour,
    price.watts_per_device,
    price.source
   FROM public.price;
CREATE TABLE public.probe (
    scenario_id bigint NOT NULL,
    batch_size integer NOT NULL,
    concurrency bigint NOT NULL,
    ttft_ms double precision,
    prefill_step_ms double precision,
    prefill_chunks bigint,
    makespan_ms double precision,
    decode_step_ms double precision,
    tokens_per_step double precision,
    tpot_inclusive_ms double precision,
    tpot_exclusive_ms double precision,
    e2e_ms double precision,
    weight_bytes bigint NOT NULL,
    kv_cache_bytes bigint NOT NULL,
    kv_cache_mean_bytes bigint NOT NULL,
    activation_bytes bigint NOT NULL,
    kv_bytes_per_request bigint NOT NULL,
    prefill_step_matrix_ms double precision,
    prefill_step_vector_ms double precision,
    prefill_step_memory_ms double precision,
    prefill_step_communication_ms double precision,
    prefill_step_overhead_ms double precision,
    decode_step_matrix_ms double precision,
    decode_step_vector_ms double precision,
    decode_step_memory_ms double precision,
    decode_step_communication_ms double precision,
    decode_step_overhead_ms double precision,
    realised_input_length_mean double precision,
    decode_step_p50_ms double precision,
    decode_step_p90_ms double precision,
    decode_step_p99_ms double precision,
    prompt_service_ms double precision,
    ttft_in_step_ms double precision,
    CONSTRAINT ck_probe_batch_size CHECK ((batch_size >= 1))
);
COMMENT ON TABLE public.probe IS 'one scenario at one batch size';
COMMENT ON COLUMN public.probe.scenario_id IS 'its scenario [none]';
COMMENT ON COLUMN public.probe.batch_size IS 'per data parallel replica and stage [requests]';
COMMENT ON COLUMN public.probe.concurrency IS 'requests in flight in one instance: batch_size x dp x pp [requests]';
COMMENT ON COLUMN public.probe.ttft_ms IS 'mean time from arrival at the instance to the first token; NULL for decode [ms]';
COMMENT ON COLUMN public.probe.prefill_step_ms IS 'one full prefill wave; NULL for decode [ms]';
COMMENT ON COLUMN public.probe.prefill_chunks IS 'chunks one prompt is split into; 1 where it fits the token budget; NULL for decode [chunks]';
COMMENT ON COLUMN public.probe.makespan_ms IS 'time until the last prompt of the batch is prefilled, serving cost included; NULL for decode [ms]';
COMMENT ON COLUMN public.probe.decode_step_ms IS 'one engine step over the decode batch, before folding by MTP; NULL for prefill [ms]';
COMMENT ON COLUMN public.probe.tokens_per_step IS 'expected tokens a request gains in one decode step (1 without MTP); NULL for prefill [tokens]';
COMMENT ON COLUMN public.probe.tpot_inclusive_ms IS 'e2e / output_length; NULL for prefill [ms]';
COMMENT ON COLUMN public.probe.tpot_exclusive_ms IS '(e2e - ttft) / max(output_length - 1, 1); NULL for prefill [ms]';
COMMENT ON COLUMN public.probe.e2e_ms IS 'arrival to last token; NULL where the phase has none [ms]';
COMMENT ON COLUMN public.probe.weight_bytes IS 'weights on the fullest device [bytes]';
COMMENT ON COLUMN public.probe.kv_cache_bytes IS 'KV cache on one device with every request at its full length [bytes]';
COMMENT ON COLUMN public.probe.kv_cache_mean_bytes IS 'KV cache on one device with every request at its mean length [bytes]';
COMMENT ON COLUMN public.probe.activation_bytes IS 'peak activations on one device [bytes]';
COMMENT ON COLUMN public.probe.kv_bytes_per_request IS 'KV cache of one prompt over the whole instance: what a PD transfer moves [bytes]';
COMMENT ON COLUMN public.probe.prefill_step_matrix_ms IS 'matrix part of the prefill step [ms]';
COMMENT ON COLUMN public.probe.prefill_step_vector_ms IS 'vector part of the prefill step [ms]';
COMMENT ON COLUMN public.probe.prefill_step_memory_ms IS 'memory part of the prefill step [ms]';
COMMENT ON COLUMN public.probe.prefill_step_communication_ms IS 'communication part of the prefill step [ms]';
COMMENT ON COLUMN public.probe.prefill_step_overhead_ms IS 'overhead part of the prefill step [ms]';
COMMENT ON COLUMN public.probe.decode_step_matrix_ms IS 'matrix part of the decode step [ms]';
COMMENT ON COLUMN public.probe.decode_step_vector_ms IS 'vector part of the decode step [ms]';
COMMENT ON COLUMN public.probe.decode_step_memory_ms IS 'memory part of the decode step [ms]';
COMMENT ON COLUMN public.probe.decode_step_communication_ms IS 'communication part of the decode step [ms]';
COMMENT ON COLUMN public.probe.decode_step_overhead_ms IS 'overhead part of the decode step [ms]';
COMMENT ON COLUMN public.probe.realised_input_length_mean IS 'mean input length of the composed batch; NULL for fixed lengths [tokens]';
COMMENT ON COLUMN public.probe.decode_step_p50_ms IS 'median decode step over random compositions; NULL for fixed lengths [ms]';
COMMENT ON COLUMN public.probe.decode_step_p90_ms IS '90th percentile of the decode step over random compositions; NULL for fixed lengths [ms]';
COMMENT ON COLUMN public.probe.decode_step_p99_ms IS '99th percentile of the decode step over random compositions; NULL for fixed lengths [ms]';
COMMENT ON COLUMN public.probe.prompt_service_ms IS 'what one more prompt adds to a prefill replica that runs full steps; NULL under waves and seed002, and outside the prefill phase [ms]';
COMMENT ON COLUMN public.probe.ttft_in_step_ms IS 'mean time to the first token if users of equal lengths stayed in step, where that is more than 1.5 times off ttft_ms: first tokens lie between the two; NULL elsewhere [ms]';
CREATE TABLE public.scenario (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    subject_id bigint NOT NULL,
    device_id bigint NOT NULL,
    formula_version integer NOT NULL,
    status character varying(16) NOT NULL,
    reason text,
    assumptions text,
    created_at timestamp with time zone NOT NULL,
    launchable_by character varying(200),
    CONSTRAINT ck_scenario_failure_has_reason CHECK ((((status)::text = 'ok'::text) OR (reason IS NOT NULL))),
    CONSTRAINT ck_scenario_status CHECK (((status)::text = ANY ((ARRAY['ok'::character varying, 'illegal'::character varying, 'unsupported'::character varying, 'error'::character varying])::text[])))
);
COMMENT ON TABLE public.scenario IS 'subject + device profile + formula version, with status and reason';
COMMENT ON COLUMN public.scenario.id IS 'integer key [none]';
COMMENT ON COLUMN public.scenario.key IS 'content key [sha256]';
COMMENT ON COLUMN public.scenario.subject_id IS 'what it is about [none]';
COMMENT ON COLUMN public.scenario.device_id IS 'profile snapshot used [none]';
COMMENT ON COLUMN public.scenario.formula_version IS 'raised when stored numbers change [none]';
COMMENT ON COLUMN public.scenario.status IS 'ok, illegal, unsupported or error [none]';
COMMENT ON COLUMN public.scenario.reason IS 'why it is not ok [none]';
COMMENT ON COLUMN public.scenario.assumptions IS 'what was assumed, one sentence a line [none]';
COMMENT ON COLUMN public.scenario.created_at IS 'when it was first stored [UTC]';
COMMENT ON COLUMN public.scenario.launchable_by IS 'engines that launch the plan as one server; NULL: not known [none]';
CREATE TABLE public.subject (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    model_id bigint NOT NULL,
    device_name character varying(200) NOT NULL,
    precision_id bigint NOT NULL,
    plan_id bigint NOT NULL,
    workload_id bigint NOT NULL,
    phase character varying(16) NOT NULL,
    convention character varying(16) NOT NULL,
    compile boolean NOT NULL,
    serving_model character varying(64) NOT NULL,
    serving_cost_ms double precision NOT NULL,
    shortest_length double precision,
    prompts_per_user integer,
    poll_steps integer,
    seats integer,
    wait_steps integer,
    routing character varying(32),
    unusual_service character varying(100)
);
COMMENT ON TABLE public.subject IS 'what rows are about; sweeps are compared by subject';
COMMENT ON COLUMN public.subject.id IS 'integer key [none]';
COMMENT ON COLUMN public.subject.key IS 'content key [sha256]';
COMMENT ON COLUMN public.subject.model_id IS 'the model [none]';
COMMENT ON COLUMN public.subject.device_name IS 'device by name [none]';
COMMENT ON COLUMN public.subject.precision_id IS 'number formats [none]';
COMMENT ON COLUMN public.subject.plan_id IS 'parallel split [none]';
COMMENT ON COLUMN public.subject.workload_id IS 'what is served [none]';
COMMENT ON COLUMN public.subject.phase IS 'prefill, decode or aggregated [none]';
COMMENT ON COLUMN public.subject.convention IS 'physical or upstream [none]';
COMMENT ON COLUMN public.subject.compile IS 'compiled graph, not eager [none]';
COMMENT ON COLUMN public.subject.serving_model IS 'how step times become latencies [none]';
COMMENT ON COLUMN public.subject.serving_cost_ms IS 'fixed cost of delivery [ms]';
COMMENT ON COLUMN public.subject.shortest_length IS 'shortest request of the client, of its nominal length; NULL: not read [ratio]';
COMMENT ON COLUMN public.subject.prompts_per_user IS 'requests each user sends; NULL: not read [requests]';
COMMENT ON COLUMN public.subject.poll_steps IS 'steps between looks for new requests; NULL: not read [steps]';
COMMENT ON COLUMN public.subject.seats IS 'requests a replica decodes at once; NULL: no bound or not read [requests]';
COMMENT ON COLUMN public.subject.wait_steps IS 'steps that prompts wait for each other; NULL: not read [steps]';
COMMENT ON COLUMN public.subject.routing IS 'how experts are loaded; NULL: not read [none]';
COMMENT ON COLUMN public.subject.unusual_service IS 'which of client, launch and routing were said, by column; NULL: not known [none]';
CREATE TABLE public.sweep (
    id bigint NOT NULL,
    key character varying(32) NOT NULL,
    label character varying(200),
    arguments text NOT NULL,
    program_version character varying(64) NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    status character varying(16) NOT NULL,
    probes_stored bigint NOT NULL,
    probes_known bigint NOT NULL,
    scenarios_failed integer NOT NULL,
    kind character varying(16) DEFAULT 'request'::character varying NOT NULL,
    CONSTRAINT ck_sweep_kind CHECK (((kind)::text = ANY ((ARRAY['request'::character varying, 'validation'::character varying, 'import'::character varying])::text[]))),
    CONSTRAINT ck_sweep_status CHECK (((status)::text = ANY ((ARRAY['running'::character varying, 'finished'::character varying, 'interrupted'::character varying, 'failed'::character varying])::text[])))
);
COMMENT ON TABLE public.sweep IS 'requests: arguments, program version, time, outcome';
COMMENT ON COLUMN public.sweep.id IS 'integer key, ascending in time [none]';
COMMENT ON COLUMN public.sweep.key IS 'random public reference [hex]';
COMMENT ON COLUMN public.sweep.label IS 'the user''s label [none]';
COMMENT ON COLUMN public.sweep.arguments IS 'what was asked, every default written out [JSON]';
COMMENT ON COLUMN public.sweep.program_version IS 'version of sweepdb that ran [none]';
COMMENT ON COLUMN public.sweep.started_at IS 'start [UTC]';
COMMENT ON COLUMN public.sweep.finished_at IS 'end [UTC]';
COMMENT ON COLUMN public.sweep.status IS 'running, finished, interrupted or failed [none]';
COMMENT ON COLUMN public.sweep.probes_stored IS 'probes this sweep added [probes]';
COMMENT ON COLUMN public.sweep.probes_known IS 'probes asked for and already stored [probes]';
COMMENT ON COLUMN public.sweep.scenarios_failed IS 'scenarios that are not ok [scenarios]';
COMMENT ON COLUMN public.sweep.kind IS 'request, validation or import [none]';
CREATE TABLE public.sweep_interval (
    sweep_id bigint NOT NULL,
    scenario_id bigint NOT NULL,
    first_batch_size integer NOT NULL,
    last_batch_size integer NOT NULL
);
COMMENT ON TABLE public.sweep_interval IS 'which sweep asked for which batch interval of which scenario';
COMMENT ON COLUMN public.sweep_interval.sweep_id IS 'asker [none]';
COMMENT ON COLUMN public.sweep_interval.scenario_id IS 'asked for [none]';
COMMENT ON COLUMN public.sweep_interval.first_batch_size IS 'from; 0 for failures [requests]';
COMMENT ON COLUMN public.sweep_interval.last_batch_size IS 'to; 0 for failures [requests]';
CREATE TABLE public.tombstone (
    id bigint NOT NULL,
    sweep_id bigint,
    scenario_id bigint,
    reason text NOT NULL,
    voided_at timestamp with time zone NOT NULL,
    lifted_at timestamp with time zone,
    CONSTRAINT ck_tombstone_one_target CHECK (((sweep_id IS NULL) <> (scenario_id IS NULL)))
);
COMMENT ON TABLE public.tombstone IS 'voided sweeps and scenarios: reason, when, lifted when';
COMMENT ON COLUMN public.tombstone.id IS 'integer key [none]';
COMMENT ON COLUMN public.tombstone.sweep_id IS 'voided sweep [none]';
COMMENT ON COLUMN public.tombstone.scenario_id IS 'voided scenario [none]';
COMMENT ON COLUMN public.tombstone.reason IS 'why [none]';
COMMENT ON COLUMN public.tombstone.voided_at IS 'when voided [UTC]';
COMMENT ON COLUMN public.tombstone.lifted_at IS 'when unvoided; NULL: still void [UTC]';
CREATE TABLE public.workload (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    label character varying(200) NOT NULL,
    name character varying(200),
    input_length integer,
    input_length_mean double precision NOT NULL,
    output_length double precision NOT NULL,
    prefix_cache_hit_rate double precision NOT NULL,
    max_batched_tokens bigint NOT NULL,
    mtp_tokens smallint NOT NULL,
    mtp_acceptance text NOT NULL,
    spec text NOT NULL,
    images integer,
    image_width integer,
    image_height integer,
    image_patches integer,
    image_tokens integer,
    encoder_split character varying(16),
    host_hit_rate double precision DEFAULT '0'::double precision NOT NULL,
    ssd_hit_rate double precision DEFAULT '0'::double precision NOT NULL,
    remote_hit_rate double precision DEFAULT '0'::double precision NOT NULL
);
COMMENT ON TABLE public.workload IS 'lengths, prefix cache, token budget and MTP';
COMMENT ON COLUMN public.workload.id IS 'integer key [none]';
COMMENT ON COLUMN public.workload.key IS 'content key [sha256]';
COMMENT ON COLUMN public.workload.label IS 'derived short form, such as 3500/1500 [tokens]';
COMMENT ON COLUMN public.workload.name IS 'the name it was first stored by [none]';
COMMENT ON COLUMN public.workload.input_length IS 'prompt length; NULL for distributions [tokens]';
COMMENT ON COLUMN public.workload.input_length_mean IS 'mean prompt length [tokens]';
COMMENT ON COLUMN public.workload.output_length IS 'generated length, the mean for distributions [tokens]';
COMMENT ON COLUMN public.workload.prefix_cache_hit_rate IS 'share of a prompt found in cache [ratio]';
COMMENT ON COLUMN public.workload.max_batched_tokens IS 'token budget of one step [tokens]';
COMMENT ON COLUMN public.workload.mtp_tokens IS 'tokens drafted a step [tokens]';
COMMENT ON COLUMN public.workload.mtp_acceptance IS 'acceptance rate of each drafted token [JSON]';
COMMENT ON COLUMN public.workload.spec IS 'canonical form [JSON]';
COMMENT ON COLUMN public.workload.images IS 'images of a request; NULL: text alone [images]';
COMMENT ON COLUMN public.workload.image_width IS 'width of an image as it is sent [pixels]';
COMMENT ON COLUMN public.workload.image_height IS 'height of an image as it is sent [pixels]';
COMMENT ON COLUMN public.workload.image_patches IS 'patches that the encoder computes for an image [patches]';
COMMENT ON COLUMN public.workload.image_tokens IS 'prompt tokens of an image, inside the prompt length [tokens]';
COMMENT ON COLUMN public.workload.encoder_split IS 'what ranks of the image encoder share: weights or data [none]';
COMMENT ON COLUMN public.workload.host_hit_rate IS 'share of a prompt found in the hosts'' memory [ratio]';
COMMENT ON COLUMN public.workload.ssd_hit_rate IS 'share of a prompt found in the hosts'' SSDs [ratio]';
COMMENT ON COLUMN public.workload.remote_hit_rate IS 'share of a prompt found in a remote store [ratio]';
CREATE VIEW public.probes AS
 SELECT ((substr((stored.scenario)::text, 1, 8) || ':'::text) || stored.batch_size) AS probe,
    stored.subject,
    stored.scenario,
    stored.first_sweep,
    stored.stored_at,
    stored.formula_version,
    stored.family,
    stored.model,
    stored.architecture,
    stored.device,
    stored.device_key,
    stored.vendor,
    stored.device_memory_bytes,
    stored.tp,
    stored.pp,
    stored.dp,
    stored.ep,
    stored.moe_tp,
    stored.moe_dp,
    stored.dcp,
    stored.redundant_experts,
    stored.pcp,
    stored.micro_batches,
    stored.encoder_devices,
    stored.num_devices,
    stored.linear_quantization,
    stored.experts_quantization,
    stored.attention_quantization,
    stored.mxfp4_group_size,
    stored.mixers_quantization,
    stored.head_quantization,
    stored.drafts_quantization,
    stored.compile,
    stored.convention,
    stored.serving_model,
    stored.serving_cost_ms,
    stored.shortest_length,
    stored.prompts_per_user,
    stored.poll_steps,
    stored.seats,
    stored.wait_steps,
    stored.routing,
    stored.unusual_service,
    stored.launchable,
    stored.workload,
    stored.workload_key,
    stored.input_length,
    stored.input_length_mean,
    stored.output_length,
    stored.prefix_cache_hit_rate,
    stored.host_hit_rate,
    stored.ssd_hit_rate,
    stored.remote_hit_rate,
    stored.max_batched_tokens,
    stored.mtp_tokens,
    stored.phase,
    stored.batch_size,
    stored.concurrency,
    stored.ttft_ms,
    stored.prefill_step_ms,
    stored.prefill_chunks,
    stored.makespan_ms,
    stored.decode_step_ms,
    stored.tokens_per_step,
    stored.tpot_inclusive_ms,
    stored.tpot_exclusive_ms,
    stored.e2e_ms,
    stored.weight_bytes,
    stored.kv_cache_bytes,
    stored.kv_cache_mean_bytes,
    stored.activation_bytes,
    stored.kv_bytes_per_request,
    stored.prefill_step_matrix_ms,
    stored.prefill_step_vector_ms,
    stored.prefill_step_memory_ms,
    stored.prefill_step_communication_ms,
    stored.prefill_step_overhead_ms,
    stored.decode_step_matrix_ms,
    stored.decode_step_vector_ms,
    stored.decode_step_memory_ms,
    stored.decode_step_communication_ms,
    stored.decode_step_overhead_ms,
    stored.realised_input_length_mean,
    stored.decode_step_p50_ms,
    stored.decode_step_p90_ms,
    stored.decode_step_p99_ms,
    stored.prompt_service_ms,
    stored.ttft_in_step_ms,
    ((((((((((('tp'::text || stored.tp) || 'pp'::text) || stored.pp) || 'dp'::text) || stored.dp) || COALESCE(
        CASE
            WHEN ((stored.ep > 1) OR (stored.moe_tp > 1) OR (stored.moe_dp > 1)) THEN ((((('ep'::text || stored.ep) || 'moetp'::text) || stored.moe_tp) || 'moedp'::text) || stored.moe_dp)
            ELSE NULL::text
        END, ''::text)) || COALESCE(
        CASE
            WHEN (stored.redundant_experts > 0) THEN ('red'::text || stored.redundant_experts)
            ELSE NULL::text
        END, ''::text)) || COALESCE(
        CASE
            WHEN (stored.dcp > 1) THEN ('dcp'::text || stored.dcp)
            ELSE NULL::text
        END, ''::text)) || COALESCE(
        CASE
            WHEN (stored.pcp > 1) THEN ('pcp'::text || stored.pcp)
            ELSE NULL::text
        END, ''::text)) || COALESCE(
        CASE
            WHEN (stored.micro_batches > 1) THEN ('mb'::text || stored.micro_batches)
            ELSE NULL::text
        END, ''::text)) || COALESCE(
        CASE
            WHEN (stored.encoder_devices > 0) THEN ('enc'::text || stored.encoder_devices)
            ELSE NULL::text
        END, ''::text)) AS plan,
        CASE
            WHEN ((stored.phase)::text = 'prefill'::text) THEN ((((1000.0 * (stored.concurrency)::numeric))::double precision / NULLIF(stored.makespan_ms, (0)::double precision)) * COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision))
            ELSE NULL::double precision
        END AS prefill_capacity_qps,
        CASE
            WHEN ((stored.phase)::text = 'prefill'::text) THEN ((((1000.0 * (stored.concurrency)::numeric))::double precision / NULLIF(stored.ttft_ms, (0)::double precision)) * COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision))
            ELSE NULL::double precision
        END AS prefill_ttft_qps,
        CASE
            WHEN ((stored.phase)::text = 'decode'::text) THEN (((((stored.concurrency)::numeric * 1000.0))::double precision / NULLIF(stored.tpot_exclusive_ms, (0)::double precision)) /
            CASE
                WHEN ((stored.output_length - (1)::double precision) > (1)::double precision) THEN (stored.output_length - (1)::double precision)
                ELSE (1)::double precision
            END)
            ELSE NULL::double precision
        END AS decode_minus_one_qps,
        CASE
            WHEN ((stored.phase)::text = 'decode'::text) THEN (((((stored.concurrency)::numeric * 1000.0))::double precision / NULLIF(stored.tpot_exclusive_ms, (0)::double precision)) / stored.output_length)
            ELSE NULL::double precision
        END AS decode_full_qps,
        CASE stored.phase
            WHEN 'prefill'::text THEN ((((1000.0 * (stored.concurrency)::numeric))::double precision / NULLIF(stored.makespan_ms, (0)::double precision)) * COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision))
            WHEN 'decode'::text THEN (((((stored.concurrency)::numeric * 1000.0))::double precision / NULLIF(stored.tpot_exclusive_ms, (0)::double precision)) /
            CASE
                WHEN ((stored.output_length - (1)::double precision) > (1)::double precision) THEN (stored.output_length - (1)::double precision)
                ELSE (1)::double precision
            END)
            ELSE (((1000.0 * (stored.concurrency)::numeric))::double precision / NULLIF((stored.e2e_ms +
            CASE stored.convention
                WHEN 'upstream'::text THEN (0)::double precision
                ELSE (stored.ttft_ms * (((1)::double precision / COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision)) - (1)::double precision))
            END), (0)::double precision))
        END AS requests_per_s,
    (
        CASE stored.phase
            WHEN 'prefill'::text THEN ((((1000.0 * (stored.concurrency)::numeric))::double precision / NULLIF(stored.makespan_ms, (0)::double precision)) * COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision))
            WHEN 'aggregated'::text THEN (((1000.0 * (stored.concurrency)::numeric))::double precision / NULLIF((stored.e2e_ms +
            CASE stored.convention
                WHEN 'upstream'::text THEN (0)::double precision
                ELSE (stored.ttft_ms * (((1)::double precision / COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision)) - (1)::double precision))
            END), (0)::double precision))
            ELSE NULL::double precision
        END * stored.input_length_mean) AS input_tokens_per_s,
        CASE stored.phase
            WHEN 'decode'::text THEN ((((stored.concurrency)::numeric * 1000.0))::double precision / NULLIF(stored.tpot_exclusive_ms, (0)::double precision))
            WHEN 'aggregated'::text THEN ((((1000.0 * (stored.concurrency)::numeric))::double precision / NULLIF((stored.e2e_ms +
            CASE stored.convention
                WHEN 'upstream'::text THEN (0)::double precision
                ELSE (stored.ttft_ms * (((1)::double precision / COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision)) - (1)::double precision))
            END), (0)::double precision)) * stored.output_length)
            ELSE NULL::double precision
        END AS output_tokens_per_s,
        CASE
            WHEN ((stored.phase)::text = 'aggregated'::text) THEN ((((1000.0 * (stored.concurrency)::numeric))::double precision * stored.output_length) / ((stored.ttft_ms + (stored.tpot_inclusive_ms * stored.output_length)) + ((2)::double precision *
            CASE stored.convention
                WHEN 'upstream'::text THEN (0)::double precision
                ELSE (stored.ttft_ms * (((1)::double precision / COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision)) - (1)::double precision))
            END)))
            ELSE NULL::double precision
        END AS output_tokens_per_s_twice,
    (
        CASE stored.phase
            WHEN 'decode'::text THEN ((((stored.concurrency)::numeric * 1000.0))::double precision / NULLIF(stored.tpot_exclusive_ms, (0)::double precision))
            WHEN 'aggregated'::text THEN ((((1000.0 * (stored.concurrency)::numeric))::double precision / NULLIF((stored.e2e_ms +
            CASE stored.convention
                WHEN 'upstream'::text THEN (0)::double precision
                ELSE (stored.ttft_ms * (((1)::double precision / COALESCE((stored.realised_input_length_mean / stored.input_length_mean), (1)::double precision)) - (1)::double precision))
            END), (0)::double precision)) * stored.output_length)
            ELSE NULL::double precision
        END / (stored.num_devices)::double precision) AS output_tokens_per_s_per_device,
    ((1000.0)::double precision / NULLIF(stored.tpot_exclusive_ms, (0)::double precision)) AS tokens_per_s_per_user,
    ((stored.realised_input_length_mean / stored.input_length_mean) - (1)::double precision) AS input_length_bias,
    stored.scenario_id,
    stored.block_id
   FROM ( SELECT sc.id AS scenario_id,
            b.id AS block_id,
            sj.key AS subject,
            sc.key AS scenario,
            sw.key AS first_sweep,
            b.created_at AS stored_at,
            sc.formula_version,
            d.family,
            m.name AS model,
            m.architecture,
            d.name AS device,
            d.key AS device_key,
            d.vendor,
            d.memory_bytes AS device_memory_bytes,
            p.tp,
            p.pp,
            p.dp,
            p.ep,
            p.moe_tp,
            p.moe_dp,
            p.dcp,
            p.redundant_experts,
            p.pcp,
            p.micro_batches,
            p.encoder_devices,
            p.num_devices,
            pr.linear_quantization,
            pr.experts_quantization,
            pr.attention_quantization,
            pr.mxfp4_group_size,
            pr.mixers_quantization,
            pr.head_quantization,
            pr.drafts_quantization,
            sj.compile,
            sj.convention,
            sj.serving_model,
            sj.serving_cost_ms,
            sj.shortest_length,
            sj.prompts_per_user,
            sj.poll_steps,
            sj.seats,
            sj.wait_steps,
            sj.routing,
            sj.unusual_service,
            sc.launchable_by AS launchable,
            COALESCE(w.name, w.label) AS workload,
            w.key AS workload_key,
            w.input_length,
            w.input_length_mean,
            w.output_length,
            w.prefix_cache_hit_rate,
            w.host_hit_rate,
            w.ssd_hit_rate,
            w.remote_hit_rate,
            w.max_batched_tokens,
            w.mtp_tokens,
            sj.phase,
            pb.batch_size,
            pb.concurrency,
            pb.ttft_ms,
            pb.prefill_step_ms,
            pb.prefill_chunks,
            pb.makespan_ms,
            pb.decode_step_ms,
            pb.tokens_per_step,
            pb.tpot_inclusive_ms,
            pb.tpot_exclusive_ms,
            pb.e2e_ms,
            pb.weight_bytes,
            pb.kv_cache_bytes,
            pb.kv_cache_mean_bytes,
            pb.activation_bytes,
            pb.kv_bytes_per_request,
            pb.prefill_step_matrix_ms,
            pb.prefill_step_vector_ms,
            pb.prefill_step_memory_ms,
            pb.prefill_step_communication_ms,
            pb.prefill_step_overhead_ms,
            pb.decode_step_matrix_ms,
            pb.decode_step_vector_ms,
            pb.decode_step_memory_ms,
            pb.decode_step_communication_ms,
            pb.decode_step_overhead_ms,
            pb.realised_input_length_mean,
            pb.decode_step_p50_ms,
            pb.decode_step_p90_ms,
            pb.decode_step_p99_ms,
            pb.prompt_service_ms,
            pb.ttft_in_step_ms
           FROM (((((((((public.block b
             JOIN public.sweep sw ON ((sw.id = b.sweep_id)))
             JOIN public.scenario sc ON ((sc.id = b.scenario_id)))
             JOIN public.subject sj ON ((sj.id = sc.subject_id)))
             JOIN public.model m ON ((m.id = sj.model_id)))
             JOIN public.device d ON ((d.id = sc.device_id)))
             JOIN public.plan p ON ((p.id = sj.plan_id)))
             JOIN public."precision" pr ON ((pr.id = sj.precision_id)))
             JOIN public.workload w ON ((w.id = sj.workload_id)))
             JOIN public.probe pb ON (((pb.scenario_id = b.scenario_id) AND ((pb.batch_size >= b.first_batch_size) AND (pb.batch_size <= b.last_batch_size)))))
          WHERE (NOT ((EXISTS ( SELECT 1
                   FROM public.tombstone t
                  WHERE ((t.lifted_at IS NULL) AND (t.scenario_id = sc.id)))) OR ((EXISTS ( SELECT 1
                   FROM public.sweep_interval i
                  WHERE ((i.scenario_id = sc.id) AND (i.sweep_id IN ( SELECT tombstone.sweep_id
                           FROM public.tombstone
                          WHERE ((tombstone.lifted_at IS NULL) AND (tombstone.sweep_id IS NOT NULL))))))) AND (NOT (EXISTS ( SELECT 1
                   FROM public.sweep_interval i
                  WHERE ((i.scenario_id = sc.id) AND (NOT (i.sweep_id IN ( SELECT tombstone.sweep_id
                           FROM public.tombstone
                          WHERE ((tombstone.lifted_at IS NULL) AND (tombstone.sweep_id IS NOT NULL)))))))))) OR ((EXISTS ( SELECT 1
                   FROM public.sweep_interval i
                  WHERE ((i.scenario_id = sc.id) AND (i.sweep_id IN ( SELECT tombstone.sweep_id
                           FROM public.tombstone
                          WHERE ((tombstone.lifted_at IS NULL) AND (tombstone.sweep_id IS NOT NULL)))) AND ((pb.batch_size >= i.first_batch_size) AND (pb.batch_size <= i.last_batch_size))))) AND (NOT (EXISTS ( SELECT 1
                   FROM public.sweep_interval i
                  WHERE ((i.scenario_id = sc.id) AND (NOT (i.sweep_id IN ( SELECT tombstone.sweep_id
                           FROM public.tombstone
                          WHERE ((tombstone.lifted_at IS NULL) AND (tombstone.sweep_id IS NOT NULL))))) AND ((pb.batch_size >= i.first_batch_size) AND (pb.batch_size <= i.last_batch_size)))))))))) stored;
CREATE SEQUENCE public.scenario_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.scenario_id_seq OWNED BY public.scenario.id;
CREATE VIEW public.scenarios AS
 SELECT sc.id AS scenario_id,
    sj.key AS subject,
    sc.key AS scenario,
    sc.formula_version,
    d.family,
    m.name AS model,
    m.architecture,
    d.name AS device,
    d.key AS device_key,
    d.vendor,
    d.memory_bytes AS device_memory_bytes,
    p.tp,
    p.pp,
    p.dp,
    p.ep,
    p.moe_tp,
    p.moe_dp,
    p.dcp,
    p.redundant_experts,
    p.pcp,
    p.micro_batches,
    p.encoder_devices,
    p.num_devices,
    pr.linear_quantization,
    pr.experts_quantization,
    pr.attention_quantization,
    pr.mxfp4_group_size,
    pr.mixers_quantization,
    pr.head_quantization,
    pr.drafts_quantization,
    sj.compile,
    sj.convention,
    sj.serving_model,
    sj.serving_cost_ms,
    sj.shortest_length,
    sj.prompts_per_user,
    sj.poll_steps,
    sj.seats,
    sj.wait_steps,
    sj.routing,
    sj.unusual_service,
    sc.launchable_by AS launchable,
    COALESCE(w.name, w.label) AS workload,
    w.key AS workload_key,
    w.input_length,
    w.input_length_mean,
    w.output_length,
    w.prefix_cache_hit_rate,
    w.host_hit_rate,
    w.ssd_hit_rate,
    w.remote_hit_rate,
    w.max_batched_tokens,
    w.mtp_tokens,
    sj.phase,
    sc.status,
    sc.reason,
    sc.assumptions,
    sc.created_at,
    ((EXISTS ( SELECT 1
           FROM public.tombstone t
          WHERE ((t.lifted_at IS NULL) AND (t.scenario_id = sc.id)))) OR ((EXISTS ( SELECT 1
           FROM public.sweep_interval i
          WHERE ((i.scenario_id = sc.id) AND (i.sweep_id IN ( SELECT tombstone.sweep_id
                   FROM public.tombstone
                  WHERE ((tombstone.lifted_at IS NULL) AND (tombstone.sweep_id IS NOT NULL))))))) AND (NOT (EXISTS ( SELECT 1
           FROM public.sweep_interval i
          WHERE ((i.scenario_id = sc.id) AND (NOT (i.sweep_id IN ( SELECT tombstone.sweep_id
                   FROM public.tombstone
                  WHERE ((tombstone.lifted_at IS NULL) AND (tombstone.sweep_id IS NOT NULL))))))))))) AS voided
   FROM ((((((public.scenario sc
     JOIN public.subject sj ON ((sj.id = sc.subject_id)))
     JOIN public.model m ON ((m.id = sj.model_id)))
     JOIN public.device d ON ((d.id = sc.device_id)))
     JOIN public.plan p ON ((p.id = sj.plan_id)))
     JOIN public."precision" pr ON ((pr.id = sj.precision_id)))
     JOIN public.workload w ON ((w.id = sj.workload_id)));
CREATE TABLE public.shard (
    sweep_id bigint NOT NULL,
    key character varying(64) NOT NULL,
    scenarios integer NOT NULL,
    probes bigint NOT NULL,
    state character varying(16) NOT NULL,
    reason text,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT ck_shard_state CHECK (((state)::text = ANY ((ARRAY['waiting'::character varying, 'stored'::character varying, 'failed'::character varying])::text[])))
);
COMMENT ON TABLE public.shard IS 'pieces of sweeps that workers evaluate, each a part';
COMMENT ON COLUMN public.shard.sweep_id IS 'the sweep [none]';
COMMENT ON COLUMN public.shard.key IS 'content key of its scenarios and batch intervals [sha256]';
COMMENT ON COLUMN public.shard.scenarios IS 'how many scenarios [scenarios]';
COMMENT ON COLUMN public.shard.probes IS 'how many probes [probes]';
COMMENT ON COLUMN public.shard.state IS 'waiting, stored or failed [none]';
COMMENT ON COLUMN public.shard.reason IS 'why it failed [none]';
COMMENT ON COLUMN public.shard.changed_at IS 'when its state changed [UTC]';
CREATE TABLE public.store_identity (
    id integer NOT NULL,
    store_id character varying(32) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT ck_store_identity_single_row CHECK ((id = 1))
);
COMMENT ON TABLE public.store_identity IS 'one row: which store this is';
COMMENT ON COLUMN public.store_identity.id IS 'always 1 [none]';
COMMENT ON COLUMN public.store_identity.store_id IS 'random identity of this store [hex]';
COMMENT ON COLUMN public.store_identity.created_at IS 'when the store was created [UTC]';
CREATE SEQUENCE public.store_identity_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.store_identity_id_seq OWNED BY public.store_identity.id;
CREATE SEQUENCE public.subject_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.subject_id_seq OWNED BY public.subject.id;
CREATE SEQUENCE public.sweep_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.sweep_id_seq OWNED BY public.sweep.id;
CREATE VIEW public.sweep_intervals AS
 SELECT sw.key AS sweep,
    i.scenario_id,
    i.first_batch_size,
    i.last_batch_size
   FROM (public.sweep_interval i
     JOIN public.sweep sw ON ((sw.id = i.sweep_id)));
CREATE VIEW public.sweeps AS
 SELECT sweep.id,
    sweep.key,
    sweep.label,
    sweep.arguments,
    sweep.program_version,
    sweep.started_at,
    sweep.finished_at,
    sweep.status,
    sweep.probes_stored,
    sweep.probes_known,
    sweep.scenarios_failed,
    sweep.kind,
        CASE
            WHEN (sweep.id IN ( SELECT tombstone.sweep_id
               FROM public.tombstone
              WHERE ((tombstone.lifted_at IS NULL) AND (tombstone.sweep_id IS NOT NULL)))) THEN 1
            ELSE 0
        END AS voided
   FROM public.sweep;
CREATE SEQUENCE public.tombstone_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.tombstone_id_seq OWNED BY public.tombstone.id;
CREATE TABLE public.validation (
    measurement_id bigint NOT NULL,
    metric character varying(64) NOT NULL,
    scenario_id bigint NOT NULL,
    batch_size integer NOT NULL,
    measured double precision NOT NULL,
    predicted double precision NOT NULL,
    signed_error double precision NOT NULL,
    region character varying(200) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    knowledge character varying(8)
);
COMMENT ON TABLE public.validation IS 'predicted against measured';
COMMENT ON COLUMN public.validation.measurement_id IS 'measured point [none]';
COMMENT ON COLUMN public.validation.metric IS 'which metric [none]';
COMMENT ON COLUMN public.validation.scenario_id IS 'what predicted it [none]';
COMMENT ON COLUMN public.validation.batch_size IS 'batch size of the prediction [requests]';
COMMENT ON COLUMN public.validation.measured IS 'measured value, in the metric''s unit [metric]';
COMMENT ON COLUMN public.validation.predicted IS 'predicted value, in the metric''s unit [metric]';
COMMENT ON COLUMN public.validation.signed_error IS '(predicted - measured) / measured [ratio]';
COMMENT ON COLUMN public.validation.region IS 'device, model kind, engine, batch, length [none]';
COMMENT ON COLUMN public.validation.created_at IS 'when it was matched [UTC]';
COMMENT ON COLUMN public.validation.knowledge IS 'evaluated as asked, as known, or both where they are one; NULL: not known [none]';
CREATE TABLE public.workload_bin (
    workload_id bigint NOT NULL,
    bin_index integer NOT NULL,
    min_input_length integer NOT NULL,
    max_input_length integer NOT NULL,
    input_length double precision NOT NULL,
    output_length double precision NOT NULL,
    weight double precision NOT NULL,
    prefix_cache_hit_rate double precision NOT NULL
);
COMMENT ON TABLE public.workload_bin IS 'bins of length distributions';
COMMENT ON COLUMN public.workload_bin.workload_id IS 'its workload [none]';
COMMENT ON COLUMN public.workload_bin.bin_index IS 'position, from 0 [none]';
COMMENT ON COLUMN public.workload_bin.min_input_length IS 'shortest prompt of the bin [tokens]';
COMMENT ON COLUMN public.workload_bin.max_input_length IS 'longest prompt of the bin [tokens]';
COMMENT ON COLUMN public.workload_bin.input_length IS 'representative prompt length [tokens]';
COMMENT ON COLUMN public.workload_bin.output_length IS 'representative generated length [tokens]';
COMMENT ON COLUMN public.workload_bin.weight IS 'probability, summing to 1 [ratio]';
COMMENT ON COLUMN public.workload_bin.prefix_cache_hit_rate IS 'share of the prompt found in cache [ratio]';
CREATE SEQUENCE public.workload_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.workload_id_seq OWNED BY public.workload.id;
CREATE TABLE public.workload_name (
    name character varying(200) NOT NULL,
    workload_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL
);
COMMENT ON TABLE public.workload_name IS 'names given to workloads';
COMMENT ON COLUMN public.workload_name.name IS 'the user''s name [none]';
COMMENT ON COLUMN public.workload_name.workload_id IS 'the workload [none]';
COMMENT ON COLUMN public.workload_name.created_at IS 'when it was named [UTC]';
ALTER TABLE ONLY public.arrival ALTER COLUMN id SET DEFAULT nextval('public.arrival_id_seq'::regclass);
ALTER TABLE ONLY public.block ALTER COLUMN id SET DEFAULT nextval('public.block_id_seq'::regclass);
ALTER TABLE ONLY public.calibration ALTER COLUMN id SET DEFAULT nextval('public.calibration_id_seq'::regclass);
ALTER TABLE ONLY public.device ALTER COLUMN id SET DEFAULT nextval('public.device_id_seq'::regclass);
ALTER TABLE ONLY public.load ALTER COLUMN id SET DEFAULT nextval('public.load_id_seq'::regclass);
ALTER TABLE ONLY public.load_block ALTER COLUMN id SET DEFAULT nextval('public.load_block_id_seq'::regclass);
ALTER TABLE ONLY public.measurement ALTER COLUMN id SET DEFAULT nextval('public.measurement_id_seq'::regclass);
ALTER TABLE ONLY public.model ALTER COLUMN id SET DEFAULT nextval('public.model_id_seq'::regclass);
ALTER TABLE ONLY public.part ALTER COLUMN id SET DEFAULT nextval('public.part_id_seq'::regclass);
ALTER TABLE ONLY public.plan ALTER COLUMN id SET DEFAULT nextval('public.plan_id_seq'::regclass);
ALTER TABLE ONLY public."precision" ALTER COLUMN id SET DEFAULT nextval('public.precision_id_seq'::regclass);
ALTER TABLE ONLY public.scenario ALTER COLUMN id SET DEFAULT nextval('public.scenario_id_seq'::regclass);
ALTER TABLE ONLY public.store_identity ALTER COLUMN id SET DEFAULT nextval('public.store_identity_id_seq'::regclass);
ALTER TABLE ONLY public.subject ALTER COLUMN id SET DEFAULT nextval('public.subject_id_seq'::regclass);
ALTER TABLE ONLY public.sweep ALTER COLUMN id SET DEFAULT nextval('public.sweep_id_seq'::regclass);
ALTER TABLE ONLY public.tombstone ALTER COLUMN id SET DEFAULT nextval('public.tombstone_id_seq'::regclass);
ALTER TABLE ONLY public.workload ALTER COLUMN id SET DEFAULT nextval('public.workload_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0018');
INSERT INTO public.arrival VALUES (1, 'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee', 'poisson', 22, 1, 1, NULL);
INSERT INTO public.block VALUES (1, 4, 1, 4, 4, 1, '2026-11-24 07:11:13.689264+00', '87f31075bf9f285863529a6da84d82803349345d86a01187a8eed7631f977054');
INSERT INTO public.block VALUES (2, 5, 1, 4, 4, 1, '2026-11-24 07:11:13.849611+00', '73f9175af10ec73aa0146a5f1a4c1eec2e6505a1e5f7503b1bd5b872d01613e3');
INSERT INTO public.block VALUES (3, 2, 1, 4, 4, 1, '2026-11-24 07:11:14.175954+00', '00552cd70b08950a51635105a3f2cfdd344387c4e797e9be7ca4a871e0065a98');
INSERT INTO public.block VALUES (4, 4, 5, 6, 2, 2, '2026-11-24 07:11:15.969303+00', '2f57b7b265286199abba2c1e3c6e355c0c86a03e14eb5b73ced7f5f7e39301e7');
INSERT INTO public.block VALUES (5, 6, 1, 2, 2, 3, '2026-11-24 07:11:16.592375+00', '0462a6ded947e27a83ec4c9dc7e5c9b32d0f03840cc3a55581ce1efe095ecbef');
INSERT INTO public.calibration VALUES (1, 'cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc', 'H100_SXM', 1, '{}', '{}', '\x00ff', '', '2026-11-24 07:11:17.202273+00');
INSERT INTO public.composition VALUES (2, 1, 0, 1);
INSERT INTO public.composition VALUES (2, 2, 0, 1);
INSERT INTO public.composition VALUES (2, 2, 1, 1);
INSERT INTO public.composition VALUES (2, 3, 0, 1);
INSERT INTO public.composition VALUES (2, 3, 1, 1);
INSERT INTO public.composition VALUES (2, 3, 2, 1);
INSERT INTO public.composition VALUES (2, 4, 0, 2);
INSERT INTO public.composition VALUES (2, 4, 1, 1);
INSERT INTO public.composition VALUES (2, 4, 2, 1);
INSERT INTO public.device VALUES (1, '3e526641757fcf81aebb27d4ee0c63cb70c94f83b516354954e24a6d794f7fc8', 'H100_SXM', 'nvidia', 'theoretical', 692300000000000, 93800000000000, 85899345920, 2680000000000, '256 x 8', '35e9 | 450e9', NULL, '["H100_SXM", "nvidia", 989, 134, 80, 3.35, 450]');
INSERT INTO public.device VALUES (2, '61145dbacc59b245a7618a0813d762c6eba61bff44a23259435870d3ffc39992', 'ATLAS_800_A3', 'huawei', 'theoretical', 263199999999999.97, 16799999999999.998, 68719476736, 1280000000000, '256 x 8', '35e9 | 196e9', NULL, '["ATLAS_800_A3", "huawei", 376, 24, 64, 1.6, 196]');
INSERT INTO public.load VALUES (1, '1111111111111111111111111111111111111111111111111111111111111111', 2, 1, 1, 'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 0.5, 2.5, 256, 100000, 'current', 'random', NULL, 20, 0, 1, 'stable', 1.5, 0.25, 100, 100, 10, 30, '2026-11-24 07:11:14.635151+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.load VALUES (2, '2222222222222222222222222222222222222222222222222222222222222222', 2, 1, 1, 'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 1, 2.5, 256, 100000, 'current', 'random', NULL, 20, 0, 1, 'stable', 3, 0.5, 200, 100, 10, 30, '2026-11-24 07:11:14.635151+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'device,host:400', NULL, 0.25, NULL, NULL);
INSERT INTO public.load VALUES (3, '3333333333333333333333333333333333333333333333333333333333333333', 2, 1, 1, 'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 1.5, 2.5, 256, 100000, 'current', 'random', NULL, 20, 0, 1, 'stable', 4.5, 0.75, 300, 100, 10, 30, '2026-11-24 07:11:14.635151+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.load_block VALUES (1, 2, 1, 'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 1, 3, 3, 'ce7bde4972417ec2269a1f5f5f22ca736478b66a2792132ee3525674b81db3ee', '2026-11-24 07:11:14.635151+00');
INSERT INTO public.load_cell VALUES (1, '\x78da636ae04960646160066216062626061400001b010104');
INSERT INTO public.load_cell VALUES (2, '\x78da636ae04960646160066216062626061400001b010104');
INSERT INTO public.load_cell VALUES (3, '\x78da636ae04960646160066216062626061400001b010104');
INSERT INTO public.load_request VALUES (3, 20, 'c4f908645a86e352b5d29e61c15aab6d46d44b7c41ca2c31343b585c7abdb493', '\x789c6310c0045f1830810d16b105ec9840008bba2b58c44080f13f9ac06b4cc088432f3a68c322a68e45cc009701e86ee1c404443a85815837e304e86e194830ea16ec60d42dd8019a5b009f111f5e');
INSERT INTO public.load_token VALUES (1, '\x78da4b602a98ccf287010c04df31fc07d10034660464');
INSERT INTO public.load_token VALUES (2, '\x78da4b602a98ccf287010c04df31fc07d10034660464');
INSERT INTO public.load_token VALUES (3, '\x78da4b602a98ccf287010c04df31fc07d10034660464');
INSERT INTO public.measurement VALUES (1, 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'a.csv:2', 'serving', NULL, 'H100_SXM', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"tpot_ms_mean": 20.5}', '{}', '{}', '2026-01-02 00:00:00+00', '2026-11-24 07:11:16.938618+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.model VALUES (1, '141a6c9567eb5c2d40f45d19068f9534d7109aa4cfec36b039b5e349b74d6a11', 'Qwen/Qwen3-32B', 'qwen3', 32800000000, 32800000000, '{"architecture": "qwen3", "kv_bytes_per_token": 262144, "experts": 0}');
INSERT INTO public.model VALUES (2, '56b7ebc119112c6f4ad30feb0f8d4e2162c09aecad9929ccaef3c1ed8d119401', 'meta-llama/Llama-3.1-70B', 'llama', 70600000000, 70600000000, '{"architecture": "llama", "kv_bytes_per_token": 327680, "experts": 0}');
INSERT INTO public.model_alias VALUES ('Qwen/Qwen3-32B', 1);
INSERT INTO public.model_alias VALUES ('meta-llama/Llama-3.1-70B', 2);
INSERT INTO public.operator_set VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '["matmul"]', '2.13.0', '2026-11-24 07:11:16.922399+00');
INSERT INTO public.part VALUES (1, 'shard-1.parquet', '/parts', 1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 4, '2026-01-02 00:00:00+00', '2026-01-03 00:00:00+00');
INSERT INTO public.part_thinned VALUES (1, 'shard-thin-1.parquet', '/parts', 1, 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 2, 1, '2026-01-02 00:00:00+00');
INSERT INTO public.plan VALUES (1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0);
INSERT INTO public.plan VALUES (2, 8, 1, 1, 1, 1, 1, 8, 1, 0, 1, 1, 0);
INSERT INTO public."precision" VALUES (1, 'dd0c780e14c7df82386a5640b92988bd1ab8b8999d909d994e9589cdbe07ac84', 'BF16', 'BF16', 'DISABLED', 32, '["BF16", "BF16", "DISABLED", 2.0, 1.0]', NULL, NULL, NULL);
INSERT INTO public."precision" VALUES (2, '8888888888888888888888888888888888888888888888888888888888888888', 'BF16', 'BF16', 'DISABLED', 32, '["BF16", "BF16", "DISABLED", 2.0, 1.0]', 'BF16', 'FP8', 'BF16');
INSERT INTO public.price VALUES ('H100_SXM', '2026-01-01', 2.5, 700, '');
INSERT INTO public.probe VALUES (4, 1, 1, 46.26534453616649, 46.26534453616649, 1, 46.26534453616649, NULL, NULL, NULL, NULL, NULL, 8200000000, 163840000, 139264000, 500040000, 917504000, 41.45601617795754, 0.0746268656716418, 3.0597014925373136, 0.875, 0.8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 23.132672268083244, NULL);
INSERT INTO public.probe VALUES (4, 2, 2, 88.67098757979566, 88.67098757979566, 1, 88.67098757979566, NULL, NULL, NULL, NULL, NULL, 8200000000, 327680000, 278528000, 500080000, 917504000, 82.91203235591507, 0.1492537313432836, 3.0597014925373136, 1.75, 0.8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 44.33549378989783, NULL);
INSERT INTO public.probe VALUES (4, 3, 3, 131.07663062342485, 131.07663062342485, 1, 131.07663062342485, NULL, NULL, NULL, NULL, NULL, 8200000000, 491520000, 417792000, 500120000, 917504000, 124.3680485338726, 0.22388059701492538, 3.0597014925373136, 2.625, 0.8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 65.53831531171242, NULL);
INSERT INTO public.probe VALUES (4, 4, 4, 173.48227366705402, 173.48227366705402, 1, 173.48227366705402, NULL, NULL, NULL, NULL, NULL, 8200000000, 655360000, 557056000, 500160000, 917504000, 165.82406471183015, 0.2985074626865672, 3.0597014925373136, 3.5, 0.8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 86.74113683352701, NULL);
INSERT INTO public.probe VALUES (5, 1, 1, NULL, NULL, NULL, NULL, 3.923781569654257, 1, 3.923781569654257, 3.923781569654257, NULL, 8200000000, 163840000, 139264000, 500040000, 917504000, NULL, NULL, NULL, NULL, NULL, 0.01184457605084501, 2.1321961620469083e-05, 3.1116656716417914, 0.00025, 0.8, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.probe VALUES (5, 2, 2, NULL, NULL, NULL, NULL, 3.9878616467712, 1, 3.9878616467712, 3.9878616467712, NULL, 8200000000, 327680000, 278528000, 500080000, 917504000, NULL, NULL, NULL, NULL, NULL, 0.02368915210169002, 4.2643923240938166e-05, 3.163629850746269, 0.0005, 0.8, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.probe VALUES (5, 3, 3, NULL, NULL, NULL, NULL, 4.051941723888143, 1, 4.051941723888143, 4.051941723888143, NULL, 8200000000, 491520000, 417792000, 500120000, 917504000, NULL, NULL, NULL, NULL, NULL, 0.03553372815253503, 6.396588486140725e-05, 3.2155940298507466, 0.00075, 0.8, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.probe VALUES (5, 4, 4, NULL, NULL, NULL, NULL, 4.116021801005086, 1, 4.116021801005086, 4.116021801005086, NULL, 8200000000, 655360000, 557056000, 500160000, 917504000, NULL, NULL, NULL, NULL, NULL, 0.04737830420338004, 8.528784648187633e-05, 3.267558208955224, 0.001, 0.8, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.probe VALUES (2, 1, 1, 22.857429576083184, 22.857429576083184, 1, 22.857429576083184, 3.893434489057242, 1, 3.940844476774807, 3.893434489057242, 1576.3377907099227, 8200000000, 64487424, 57933824, 500040000, 411041792, 18.572295247724973, 0.03343283582089552, 3.0597014925373136, 0.392, 0.8, 0.01184457605084501, 2.1321961620469083e-05, 3.0813185910447762, 0.00025, 0.8, 320, 3.893434489057242, 4.0881062135101045, 4.282777937962966, NULL, 45.71485915216637);
INSERT INTO public.probe VALUES (2, 2, 2, 41.85515765962905, 41.85515765962905, 1, 41.85515765962905, 3.9271674855771703, 1, 4.0219874610123, 3.9271674855771703, 1608.79498440492, 8200000000, 128974848, 115867648, 500080000, 411041792, 37.14459049544995, 0.06686567164179104, 3.0597014925373136, 0.784, 0.8, 0.02368915210169002, 4.2643923240938166e-05, 3.102935689552239, 0.0005, 0.8, 800, 3.9271674855771703, 4.123525859856029, 4.3198842341348875, NULL, 83.7103153192581);
INSERT INTO public.probe VALUES (2, 3, 3, 60.85288574317493, 60.85288574317493, 1, 60.85288574317493, 3.960900482097098, 1, 4.103130445249793, 3.960900482097098, 1641.252178099917, 8200000000, 193462272, 173801472, 500120000, 411041792, 55.71688574317493, 0.10029850746268656, 3.0597014925373136, 1.176, 0.8, 0.03553372815253503, 6.396588486140725e-05, 3.1245527880597015, 0.00075, 0.8, 2240, 3.960900482097098, 4.158945506201953, 4.356990530306808, NULL, 121.70577148634986);
INSERT INTO public.probe VALUES (2, 4, 4, 79.85061382672079, 79.85061382672079, 1, 79.85061382672079, 3.9946334786170263, 1, 4.184273429487286, 3.9946334786170263, 1673.7093717949142, 8200000000, 257949696, 231735296, 500160000, 411041792, 74.2891809908999, 0.13373134328358208, 3.0597014925373136, 1.568, 0.8, 0.04737830420338004, 8.528784648187633e-05, 3.146169886567164, 0.001, 0.8, 1760, 3.9946334786170263, 4.194365152547878, 4.394096826478729, NULL, 159.70122765344158);
INSERT INTO public.probe VALUES (4, 5, 5, 215.88791671068319, 215.88791671068319, 1, 215.88791671068319, NULL, NULL, NULL, NULL, NULL, 8200000000, 819200000, 696320000, 500200000, 917504000, 207.28008088978765, 0.373134328358209, 3.0597014925373136, 4.375, 0.8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 107.94395835534159, NULL);
INSERT INTO public.probe VALUES (4, 6, 6, 258.29355975431235, 258.29355975431235, 1, 258.29355975431235, NULL, NULL, NULL, NULL, NULL, 8200000000, 983040000, 835584000, 500240000, 917504000, 248.7360970677452, 0.44776119402985076, 3.0597014925373136, 5.25, 0.8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 129.14677987715618, NULL);
INSERT INTO public.probe VALUES (6, 1, 1, NULL, NULL, NULL, NULL, 3.923781569654257, 1, 3.923781569654257, 3.923781569654257, NULL, 8200000000, 163840000, 139264000, 500040000, 917504000, NULL, NULL, NULL, NULL, NULL, 0.01184457605084501, 2.1321961620469083e-05, 3.1116656716417914, 0.00025, 0.8, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.probe VALUES (6, 2, 2, NULL, NULL, NULL, NULL, 3.9878616467712, 1, 3.9878616467712, 3.9878616467712, NULL, 8200000000, 327680000, 278528000, 500080000, 917504000, NULL, NULL, NULL, NULL, NULL, 0.02368915210169002, 4.2643923240938166e-05, 3.163629850746269, 0.0005, 0.8, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.scenario VALUES (1, '0ecc8b6bf641f556d62cc8ed00d00aad0c6c000ac4853dc79c6592bf643d6e67', 2, 2, 2, 'illegal', 'weights of 132 GiB exceed the 64 GiB of one device', NULL, '2026-11-24 07:11:13.509037+00', NULL);
INSERT INTO public.scenario VALUES (2, '1234e406014a164c1f67e58e052e14b8d4a5a44076adad8bf197942aadc095b3', 1, 1, 2, 'ok', NULL, NULL, '2026-11-24 07:11:13.509034+00', NULL);
INSERT INTO public.scenario VALUES (3, '5f0e358be2a995e5c6304b11ad1621f755bb197850d75713a45293c4b0d5ed04', 2, 2, 1, 'illegal', 'weights of 132 GiB exceed the 64 GiB of one device', NULL, '2026-11-24 07:11:13.50904+00', NULL);
INSERT INTO public.scenario VALUES (4, '6c3fb5b21f217483b914817574c08631073c6f5ce3922de7f5220a3b2150ea03', 4, 1, 2, 'ok', NULL, NULL, '2026-11-24 07:11:13.50901+00', 'vllm,sglang');
INSERT INTO public.scenario VALUES (5, '9a1f682f17327de697d2079c60a7f02083709c92df12efac55e1285eedb40b36', 3, 1, 2, 'ok', NULL, NULL, '2026-11-24 07:11:13.509031+00', NULL);
INSERT INTO public.scenario VALUES (6, '4edabc03cf8ad485a93f5d043e2851f2482747ae6cc581cd481bd2072357b654', 5, 1, 2, 'ok', NULL, NULL, '2026-11-24 07:11:16.428952+00', NULL);
INSERT INTO public.shard VALUES (1, 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 1, 4, 'failed', 'no space left', '2026-11-24 07:11:15.084421+00');
INSERT INTO public.store_identity VALUES (1, '661faaca0f529305ec896a5ef20bac7f', '2026-11-24 07:11:12.062025+00');
INSERT INTO public.subject VALUES (1, '638a6580f54e3e54c41f2fb0543f9df2fffbba2ff36778bc32c84e5b75cd437a', 1, 'H100_SXM', 1, 2, 2, 'aggregated', 'physical', true, 'waves', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.subject VALUES (2, '71d2ca2860601122bee0947ed51d3db8def0530e0f2fac434be77bd8cf9fdba2', 2, 'ATLAS_800_A3', 1, 1, 3, 'prefill', 'physical', true, 'waves', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.subject VALUES (3, '902b7d13b9b442d048721c97bcc4647b8100949480ef68c13c5283b6ca9e5e0a', 1, 'H100_SXM', 1, 2, 1, 'decode', 'physical', true, 'waves', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.subject VALUES (4, 'f564d0884d13613fcfa5b9979cbeaf4cd519676673eaf8e48a44a172baf6fbc7', 1, 'H100_SXM', 1, 2, 1, 'prefill', 'physical', true, 'waves', 0, 0.8, 10, 2, 256, 40, 'power_law_1.2', 'shortest_length,seats');
INSERT INTO public.subject VALUES (5, '5b45cb6cfbdefc942d9c0eb92e97e474bae20e62e7a5929a2cb994f63534f5ae', 1, 'H100_SXM', 2, 2, 4, 'decode', 'physical', true, 'waves', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.sweep VALUES (1, '00000000000000000000000000000001', 'first', '{"generated": true}', '0.1.0', '2025-01-01 00:00:00+00', '2026-11-24 07:11:15.373161+00', 'finished', 12, 0, 2, 'request');
INSERT INTO public.sweep VALUES (2, '00000000000000000000000000000002', 'wider', '{"generated": true}', '0.1.0', '2025-01-01 00:00:00+00', '2026-11-24 07:11:16.065717+00', 'interrupted', 2, 2, 0, 'import');
INSERT INTO public.sweep VALUES (3, '00000000000000000000000000000003', NULL, '{"generated": true}', '0.1.0', '2025-01-01 00:00:00+00', NULL, 'running', 0, 0, 0, 'validation');
INSERT INTO public.sweep_interval VALUES (1, 1, 0, 0);
INSERT INTO public.sweep_interval VALUES (1, 3, 0, 0);
INSERT INTO public.sweep_interval VALUES (1, 4, 1, 4);
INSERT INTO public.sweep_interval VALUES (1, 5, 1, 4);
INSERT INTO public.sweep_interval VALUES (1, 2, 1, 4);
INSERT INTO public.sweep_interval VALUES (2, 4, 3, 6);
INSERT INTO public.sweep_interval VALUES (3, 6, 1, 2);
INSERT INTO public.tombstone VALUES (1, 3, NULL, 'the wrong driver', '2026-11-24 07:11:16.684882+00', NULL);
INSERT INTO public.tombstone VALUES (2, NULL, 5, 'a mistake', '2026-11-24 07:11:16.806846+00', '2026-11-24 07:11:16.886071+00');
INSERT INTO public.validation VALUES (1, 'tpot_ms_mean', 5, 2, 20.5, 16.4, -0.20000000000000007, 'h100, dense', '2026-11-24 07:11:17.016948+00', NULL);
INSERT INTO public.workload VALUES (1, '94f595855bcd02787e028be522888dd6c4bc8f9682d044c4a1d88d5dca096ac8', '3500/1500', NULL, 3500, 3500, 1500, 0, 8192, 0, '[]', '[3500, 1500, 0.0, 0]', NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0);
INSERT INTO public.workload VALUES (2, 'c7c3edfa4f954bdad2587134ed671804e73d8a70eefc4f8a744bcf7dfff98dc6', 'mean 1568/400', 'chat-mix', NULL, 1568, 400, 0, 8192, 0, '[]', '[null, 400, 0.0, 0]', NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0);
INSERT INTO public.workload VALUES (3, 'f720a5bf8e0c65e31b76e2af8eaa7e4d36eeaef81ebd06b83b0e12a5f227ca8b', '1024/1024', NULL, 1024, 1024, 1024, 0, 8192, 0, '[]', '[1024, 1024, 0.0, 0]', NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0);
INSERT INTO public.workload VALUES (4, '9999999999999999999999999999999999999999999999999999999999999999', '3500/1500 with 2 x 1024x768', NULL, 1024, 1024, 1024, 0, 8192, 0, '[]', '[1024, 1024, 0.0, 0]', 2, 1024, 768, 3072, 768, 'data', 0, 0, 0);
INSERT INTO public.workload_bin VALUES (2, 0, 128, 512, 320, 400, 0.5, 0);
INSERT INTO public.workload_bin VALUES (2, 1, 513, 2048, 1280, 400, 0.3, 0);
INSERT INTO public.workload_bin VALUES (2, 2, 2049, 8192, 5120, 400, 0.2, 0);
INSERT INTO public.workload_name VALUES ('chat-mix', 2, '2026-11-24 07:11:13.37473+00');
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.arrival
    ADD CONSTRAINT pk_arrival PRIMARY KEY (id);
ALTER TABLE ONLY public.block
    ADD CONSTRAINT pk_block PRIMARY KEY (id);
ALTER TABLE ONLY public.calibration
    ADD CONSTRAINT pk_calibration PRIMARY KEY (id);
ALTER TABLE ONLY public.composition
    ADD CONSTRAINT pk_composition PRIMARY KEY (scenario_id, batch_size, bin_index);
ALTER TABLE ONLY public.device
    ADD CONSTRAINT pk_device PRIMARY KEY (id);
ALTER TABLE ONLY public.load
    ADD CONSTRAINT pk_load PRIMARY KEY (id);
ALTER TABLE ONLY public.load_block
    ADD CONSTRAINT pk_load_block PRIMARY KEY (id);
ALTER TABLE ONLY public.load_cell
    ADD CONSTRAINT pk_load_cell PRIMARY KEY (load_id);
ALTER TABLE ONLY public.load_request
    ADD CONSTRAINT pk_load_request PRIMARY KEY (load_id);
ALTER TABLE ONLY public.load_token
    ADD CONSTRAINT pk_load_token PRIMARY KEY (load_id);
ALTER TABLE ONLY public.measured_requests
    ADD CONSTRAINT pk_measured_requests PRIMARY KEY (measurement_id);
ALTER TABLE ONLY public.measurement
    ADD CONSTRAINT pk_measurement PRIMARY KEY (id);
ALTER TABLE ONLY public.model
    ADD CONSTRAINT pk_model PRIMARY KEY (id);
ALTER TABLE ONLY public.model_alias
    ADD CONSTRAINT pk_model_alias PRIMARY KEY (alias, model_id);
ALTER TABLE ONLY public.operator_set
    ADD CONSTRAINT pk_operator_set PRIMARY KEY (key);
ALTER TABLE ONLY public.part
    ADD CONSTRAINT pk_part PRIMARY KEY (id);
ALTER TABLE ONLY public.part_block
    ADD CONSTRAINT pk_part_block PRIMARY KEY (first_block);
ALTER TABLE ONLY public.part_claim
    ADD CONSTRAINT pk_part_claim PRIMARY KEY (home);
ALTER TABLE ONLY public.part_file
    ADD CONSTRAINT pk_part_file PRIMARY KEY (name);
ALTER TABLE ONLY public.part_subject
    ADD CONSTRAINT pk_part_subject PRIMARY KEY (part_id, model_id, workload_id, phase);
ALTER TABLE ONLY public.part_thinned
    ADD CONSTRAINT pk_part_thinned PRIMARY KEY (part_id);
ALTER TABLE ONLY public.plan
    ADD CONSTRAINT pk_plan PRIMARY KEY (id);
ALTER TABLE ONLY public."precision"
    ADD CONSTRAINT pk_precision PRIMARY KEY (id);
ALTER TABLE ONLY public.price
    ADD CONSTRAINT pk_price PRIMARY KEY (device_name, effective_from);
ALTER TABLE ONLY public.probe
    ADD CONSTRAINT pk_probe PRIMARY KEY (scenario_id, batch_size);
ALTER TABLE ONLY public.scenario
    ADD CONSTRAINT pk_scenario PRIMARY KEY (id);
ALTER TABLE ONLY public.shard
    ADD CONSTRAINT pk_shard PRIMARY KEY (sweep_id, key);
ALTER TABLE ONLY public.store_identity
    ADD CONSTRAINT pk_store_identity PRIMARY KEY (id);
ALTER TABLE ONLY public.subject
    ADD CONSTRAINT pk_subject PRIMARY KEY (id);
ALTER TABLE ONLY public.sweep
    ADD CONSTRAINT pk_sweep PRIMARY KEY (id);
ALTER TABLE ONLY public.sweep_interval
    ADD CONSTRAINT pk_sweep_interval PRIMARY KEY (sweep_id, scenario_id, first_batch_size);
ALTER TABLE ONLY public.tombstone
    ADD CONSTRAINT pk_tombstone PRIMARY KEY (id);
ALTER TABLE ONLY public.validation
    ADD CONSTRAINT pk_validation PRIMARY KEY (measurement_id, metric, scenario_id);
ALTER TABLE ONLY public.workload
    ADD CONSTRAINT pk_workload PRIMARY KEY (id);
ALTER TABLE ONLY public.workload_bin
    ADD CONSTRAINT pk_workload_bin PRIMARY KEY (workload_id, bin_index);
ALTER TABLE ONLY public.workload_name
    ADD CONSTRAINT pk_workload_name PRIMARY KEY (name);
ALTER TABLE ONLY public.arrival
    ADD CONSTRAINT uq_arrival_key UNIQUE (key);
ALTER TABLE ONLY public.block
    ADD CONSTRAINT uq_block_scenario_id UNIQUE (scenario_id, first_batch_size);
ALTER TABLE ONLY public.calibration
    ADD CONSTRAINT uq_calibration_device_name UNIQUE (device_name, version);
ALTER TABLE ONLY public.calibration
    ADD CONSTRAINT uq_calibration_key UNIQUE (key);
ALTER TABLE ONLY public.device
    ADD CONSTRAINT uq_device_key UNIQUE (key);
ALTER TABLE ONLY public.load_block
    ADD CONSTRAINT uq_load_block_settings_key UNIQUE (settings_key, first_load);
ALTER TABLE ONLY public.load
    ADD CONSTRAINT uq_load_key UNIQUE (key);
ALTER TABLE ONLY public.measurement
    ADD CONSTRAINT uq_measurement_key UNIQUE (key);
ALTER TABLE ONLY public.model
    ADD CONSTRAINT uq_model_key UNIQUE (key);
ALTER TABLE ONLY public.part
    ADD CONSTRAINT uq_part_name UNIQUE (name);
ALTER TABLE ONLY public.part_thinned
    ADD CONSTRAINT uq_part_thinned_name UNIQUE (name);
ALTER TABLE ONLY public.plan
    ADD CONSTRAINT uq_plan_tp UNIQUE (tp, pp, dp, ep, moe_tp, moe_dp, dcp, redundant_experts, pcp, micro_batches, encoder_devices);
ALTER TABLE ONLY public."precision"
    ADD CONSTRAINT uq_precision_key UNIQUE (key);
ALTER TABLE ONLY public.scenario
    ADD CONSTRAINT uq_scenario_key UNIQUE (key);
ALTER TABLE ONLY public.subject
    ADD CONSTRAINT uq_subject_key UNIQUE (key);
ALTER TABLE ONLY public.sweep
    ADD CONSTRAINT uq_sweep_key UNIQUE (key);
ALTER TABLE ONLY public.workload
    ADD CONSTRAINT uq_workload_key UNIQUE (key);
CREATE INDEX ix_block_sweep_id ON public.block USING btree (sweep_id);
CREATE INDEX ix_device_name ON public.device USING btree (name);
CREATE INDEX ix_load_arrival_id ON public.load USING btree (arrival_id);
CREATE INDEX ix_load_block_scenario_id ON public.load_block USING btree (scenario_id);
CREATE INDEX ix_load_block_sweep_id ON public.load_block USING btree (sweep_id);
CREATE INDEX ix_load_scenario_id ON public.load USING btree (scenario_id);
CREATE INDEX ix_load_settings_key ON public.load USING btree (settings_key);
CREATE INDEX ix_load_sweep_id ON public.load USING btree (sweep_id);
CREATE INDEX ix_measurement_device ON public.measurement USING btree (device);
CREATE INDEX ix_measurement_model ON public.measurement USING btree (model);
CREATE INDEX ix_model_name ON public.model USING btree (name);
CREATE INDEX ix_part_block_part_id ON public.part_block USING btree (part_id);
CREATE INDEX ix_part_subject_model_id ON public.part_subject USING btree (model_id);
CREATE INDEX ix_scenario_device_id ON public.scenario USING btree (device_id);
CREATE INDEX ix_scenario_subject_id ON public.scenario USING btree (subject_id);
CREATE INDEX ix_subject_device_name ON public.subject USING btree (device_name);
CREATE INDEX ix_subject_model_id ON public.subject USING btree (model_id);
CREATE INDEX ix_subject_workload_id ON public.subject USING btree (workload_id);
CREATE INDEX ix_sweep_interval_scenario_id ON public.sweep_interval USING btree (scenario_id);
CREATE INDEX ix_sweep_label ON public.sweep USING btree (label);
CREATE INDEX ix_sweep_started_at ON public.sweep USING btree (started_at);
CREATE INDEX ix_tombstone_active ON public.tombstone USING btree (lifted_at);
CREATE INDEX ix_tombstone_scenario_id ON public.tombstone USING btree (scenario_id);
CREATE INDEX ix_tombstone_sweep_id ON public.tombstone USING btree (sweep_id);
CREATE INDEX ix_validation_region ON public.validation USING btree (region);
CREATE INDEX ix_workload_name ON public.workload USING btree (name);
CREATE INDEX ix_workload_name_workload_id ON public.workload_name USING btree (workload_id);
CREATE TRIGGER block_refuses_delete BEFORE DELETE ON public.block FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER block_refuses_update BEFORE UPDATE ON public.block FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER composition_refuses_delete BEFORE DELETE ON public.composition FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER composition_refuses_update BEFORE UPDATE ON public.composition FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_block_refuses_delete BEFORE DELETE ON public.load_block FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_block_refuses_update BEFORE UPDATE ON public.load_block FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_cell_refuses_delete BEFORE DELETE ON public.load_cell FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_cell_refuses_update BEFORE UPDATE ON public.load_cell FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_refuses_delete BEFORE DELETE ON public.load FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_refuses_update BEFORE UPDATE ON public.load FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_request_refuses_update BEFORE UPDATE ON public.load_request FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_token_refuses_delete BEFORE DELETE ON public.load_token FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER load_token_refuses_update BEFORE UPDATE ON public.load_token FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER probe_refuses_delete BEFORE DELETE ON public.probe FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER probe_refuses_update BEFORE UPDATE ON public.probe FOR EACH ROW EXECUTE FUNCTION public.refuse_change();
ALTER TABLE ONLY public.block
    ADD CONSTRAINT fk_block_scenario_id_scenario FOREIGN KEY (scenario_id) REFERENCES public.scenario(id);
ALTER TABLE ONLY public.block
    ADD CONSTRAINT fk_block_sweep_id_sweep FOREIGN KEY (sweep_id) REFERENCES public.sweep(id);
ALTER TABLE ONLY public.composition
    ADD CONSTRAINT fk_composition_scenario_id_scenario FOREIGN KEY (scenario_id) REFERENCES public.scenario(id);
ALTER TABLE ONLY public.load
    ADD CONSTRAINT fk_load_arrival_id_arrival FOREIGN KEY (arrival_id) REFERENCES public.arrival(id);
ALTER TABLE ONLY public.load_block
    ADD CONSTRAINT fk_load_block_scenario_id_scenario FOREIGN KEY (scenario_id) REFERENCES public.scenario(id);
ALTER TABLE ONLY public.load_block
    ADD CONSTRAINT fk_load_block_sweep_id_sweep FOREIGN KEY (sweep_id) REFERENCES public.sweep(id);
ALTER TABLE ONLY public.load_cell
    ADD CONSTRAINT fk_load_cell_load_id_load FOREIGN KEY (load_id) REFERENCES public.load(id);
ALTER TABLE ONLY public.load_request
    ADD CONSTRAINT fk_load_request_load_id_load FOREIGN KEY (load_id) REFERENCES public.load(id);
ALTER TABLE ONLY public.load
    ADD CONSTRAINT fk_load_scenario_id_scenario FOREIGN KEY (scenario_id) REFERENCES public.scenario(id);
ALTER TABLE ONLY public.load
    ADD CONSTRAINT fk_load_sweep_id_sweep FOREIGN KEY (sweep_id) REFERENCES public.sweep(id);
ALTER TABLE ONLY public.load_token
    ADD CONSTRAINT fk_load_token_load_id_load FOREIGN KEY (load_id) REFERENCES public.load(id);
ALTER TABLE ONLY public.measured_requests
    ADD CONSTRAINT fk_measured_requests_measurement_id_measurement FOREIGN KEY (measurement_id) REFERENCES public.measurement(id);
ALTER TABLE ONLY public.model_alias
    ADD CONSTRAINT fk_model_alias_model_id_model FOREIGN KEY (model_id) REFERENCES public.model(id);
ALTER TABLE ONLY public.part_block
    ADD CONSTRAINT fk_part_block_part_id_part FOREIGN KEY (part_id) REFERENCES public.part(id);
ALTER TABLE ONLY public.part_subject
    ADD CONSTRAINT fk_part_subject_model_id_model FOREIGN KEY (model_id) REFERENCES public.model(id);
ALTER TABLE ONLY public.part_subject
    ADD CONSTRAINT fk_part_subject_part_id_part FOREIGN KEY (part_id) REFERENCES public.part(id);
ALTER TABLE ONLY public.part_subject
    ADD CONSTRAINT fk_part_subject_workload_id_workload FOREIGN KEY (workload_id) REFERENCES public.workload(id);
ALTER TABLE ONLY public.part_thinned
    ADD CONSTRAINT fk_part_thinned_part_id_part FOREIGN KEY (part_id) REFERENCES public.part(id);
ALTER TABLE ONLY public.probe
    ADD CONSTRAINT fk_probe_scenario_id_scenario FOREIGN KEY (scenario_id) REFERENCES public.scenario(id);
ALTER TABLE ONLY public.scenario
    ADD CONSTRAINT fk_scenario_device_id_device FOREIGN KEY (device_id) REFERENCES public.device(id);
ALTER TABLE ONLY public.scenario
    ADD CONSTRAINT fk_scenario_subject_id_subject FOREIGN KEY (subject_id) REFERENCES public.subject(id);
ALTER TABLE ONLY public.shard
    ADD CONSTRAINT fk_shard_sweep_id_sweep FOREIGN KEY (sweep_id) REFERENCES public.sweep(id);
ALTER TABLE ONLY public.subject
    ADD CONSTRAINT fk_subject_model_id_model FOREIGN KEY (model_id) REFERENCES public.model(id);
ALTER TABLE ONLY public.subject
    ADD CONSTRAINT fk_subject_plan_id_plan FOREIGN KEY (plan_id) REFERENCES public.plan(id);
ALTER TABLE ONLY public.subject
    ADD CONSTRAINT fk_subject_precision_id_precision FOREIGN KEY (precision_id) REFERENCES public."precision"(id);
ALTER TABLE ONLY public.subject
    ADD CONSTRAINT fk_subject_workload_id_workload FOREIGN KEY (workload_id) REFERENCES public.workload(id);
ALTER TABLE ONLY public.sweep_interval
    ADD CONSTRAINT fk_sweep_interval_scenario_id_scenario FOREIGN KEY (scenario_id) REFERENCES public.scenario(id);
ALTER TABLE ONLY public.sweep_interval
    ADD CONSTRAINT fk_sweep_interval_sweep_id_sweep FOREIGN KEY (sweep_id) REFERENCES public.sweep(id);
ALTER TABLE ONLY public.tombstone
    ADD CONSTRAINT fk_tombstone_scenario_id_scenario FOREIGN KEY (scenario_id) REFERENCES public.scenario(id);
ALTER TABLE ONLY public.tombstone
    ADD CONSTRAINT fk_tombstone_sweep_id_sweep FOREIGN KEY (sweep_id) REFERENCES public.sweep(id);
ALTER TABLE ONLY public.validation
    ADD CONSTRAINT fk_validation_measurement_id_measurement FOREIGN KEY (measurement_id) REFERENCES public.measurement(id);
ALTER TABLE ONLY public.validation
    ADD CONSTRAINT fk_validation_scenario_id_scenario FOREIGN KEY (scenario_id) REFERENCES public.scenario(id);
ALTER TABLE ONLY public.workload_bin
    ADD CONSTRAINT fk_workload_bin_workload_id_workload FOREIGN KEY (workload_id) REFERENCES public.workload(id);
ALTER TABLE ONLY public.workload_name
    ADD CONSTRAINT fk_workload_name_workload_id_workload FOREIGN KEY (workload_id) REFERENCES public.workload(id);
