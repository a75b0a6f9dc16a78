BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0018');
CREATE TABLE arrival (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	process VARCHAR(16) NOT NULL, 
	requests INTEGER NOT NULL, 
	seed BIGINT NOT NULL, 
	cv DOUBLE NOT NULL, 
	trace_sha256 VARCHAR(64), 
	CONSTRAINT pk_arrival PRIMARY KEY (id), 
	CONSTRAINT uq_arrival_key UNIQUE ("key")
);
INSERT INTO "arrival" VALUES(1,'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','poisson',22,1,1.0,NULL);
CREATE TABLE block (
	id INTEGER NOT NULL, 
	scenario_id INTEGER NOT NULL, 
	first_batch_size INTEGER NOT NULL, 
	last_batch_size INTEGER NOT NULL, 
	probe_count INTEGER NOT NULL, 
	sweep_id INTEGER NOT NULL, 
	created_at DATETIME NOT NULL, digest VARCHAR(64), 
	CONSTRAINT pk_block PRIMARY KEY (id), 
	CONSTRAINT ck_block_interval CHECK (last_batch_size >= first_batch_size), 
	CONSTRAINT uq_block_scenario_id UNIQUE (scenario_id, first_batch_size), 
	CONSTRAINT fk_block_scenario_id_scenario FOREIGN KEY(scenario_id) REFERENCES scenario (id), 
	CONSTRAINT fk_block_sweep_id_sweep FOREIGN KEY(sweep_id) REFERENCES sweep (id)
);
INSERT INTO "block" VALUES(1,4,1,4,4,1,'2026-11-24 07:11:00.293023','87f31075bf9f285863529a6da84d82803349345d86a01187a8eed7631f977054');
INSERT INTO "block" VALUES(2,5,1,4,4,1,'2026-11-24 07:11:00.295654','73f9175af10ec73aa0146a5f1a4c1eec2e6505a1e5f7503b1bd5b872d01613e3');
INSERT INTO "block" VALUES(3,2,1,4,4,1,'2026-11-24 07:11:00.385822','00552cd70b08950a51635105a3f2cfdd344387c4e797e9be7ca4a871e0065a98');
INSERT INTO "block" VALUES(4,4,5,6,2,2,'2026-11-24 07:11:00.830091','2f57b7b265286199abba2c1e3c6e355c0c86a03e14eb5b73ced7f5f7e39301e7');
INSERT INTO "block" VALUES(5,6,1,2,2,3,'2026-11-24 07:11:01.069434','0462a6ded947e27a83ec4c9dc7e5c9b32d0f03840cc3a55581ce1efe095ecbef');
CREATE TABLE calibration (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	device_name VARCHAR(200) NOT NULL, 
	version INTEGER NOT NULL, 
	spec TEXT NOT NULL, 
	errors TEXT NOT NULL, 
	kernels BLOB, 
	source TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_calibration PRIMARY KEY (id), 
	CONSTRAINT uq_calibration_device_name UNIQUE (device_name, version), 
	CONSTRAINT uq_calibration_key UNIQUE ("key")
);
INSERT INTO "calibration" VALUES(1,'cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','H100_SXM',1,'{}','{}',X'00FF','','2026-11-24 07:11:01.279083');
CREATE TABLE composition (
	scenario_id INTEGER NOT NULL, 
	batch_size INTEGER NOT NULL, 
	bin_index INTEGER NOT NULL, 
	samples INTEGER NOT NULL, 
	CONSTRAINT pk_composition PRIMARY KEY (scenario_id, batch_size, bin_index), 
	CONSTRAINT fk_composition_scenario_id_scenario FOREIGN KEY(scenario_id) REFERENCES scenario (id)
)
 WITHOUT ROWID

;
INSERT INTO "composition" VALUES(2,1,0,1);
INSERT INTO "composition" VALUES(2,2,0,1);
INSERT INTO "composition" VALUES(2,2,1,1);
INSERT INTO "composition" VALUES(2,3,0,1);
INSERT INTO "composition" VALUES(2,3,1,1);
INSERT INTO "composition" VALUES(2,3,2,1);
INSERT INTO "composition" VALUES(2,4,0,2);
INSERT INTO "composition" VALUES(2,4,1,1);
INSERT INTO "composition" VALUES(2,4,2,1);
CREATE TABLE device (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	vendor VARCHAR(200) NOT NULL, 
	family VARCHAR(16) NOT NULL, 
	matrix_flops_per_s DOUBLE NOT NULL, 
	vector_flops_per_s DOUBLE NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	memory_bandwidth_bytes_per_s DOUBLE NOT NULL, 
	grid VARCHAR(200) NOT NULL, 
	link_bandwidths VARCHAR(200) NOT NULL, 
	calibration_key VARCHAR(64), 
	spec TEXT NOT NULL, 
	CONSTRAINT pk_device PRIMARY KEY (id), 
	CONSTRAINT uq_device_key UNIQUE ("key")
);
INSERT INTO "device" VALUES(1,'3e526641757fcf81aebb27d4ee0c63cb70c94f83b516354954e24a6d794f7fc8','H100_SXM','nvidia','theoretical',692300000000000.0,93800000000000.0,85899345920,2680000000000.0,'256 x 8','35e9 | 450e9',NULL,'["H100_SXM", "nvidia", 989, 134, 80, 3.35, 450]');
INSERT INTO "device" VALUES(2,'61145dbacc59b245a7618a0813d762c6eba61bff44a23259435870d3ffc39992','ATLAS_800_A3','huawei','theoretical',2.63199999999999968746e+14,1.67999999999999980468e+13,68719476736,1280000000000.0,'256 x 8','35e9 | 196e9',NULL,'["ATLAS_800_A3", "huawei", 376, 24, 64, 1.6, 196]');
CREATE TABLE load (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	scenario_id INTEGER NOT NULL, 
	arrival_id INTEGER NOT NULL, 
	sweep_id INTEGER NOT NULL, 
	settings_key VARCHAR(64) NOT NULL, 
	arrivals_per_s DOUBLE NOT NULL, 
	saturation_per_s DOUBLE NOT NULL, 
	play_seats INTEGER NOT NULL, 
	kv_tokens BIGINT NOT NULL, 
	kv_admission VARCHAR(16) NOT NULL, 
	dispatch VARCHAR(16) NOT NULL, 
	reject_ms DOUBLE, 
	counted_requests INTEGER NOT NULL, 
	rejected INTEGER NOT NULL, 
	preempted INTEGER NOT NULL, 
	load_status VARCHAR(16) NOT NULL, 
	in_flight DOUBLE NOT NULL, 
	busy_share DOUBLE NOT NULL, 
	generated_per_s DOUBLE NOT NULL, 
	ttft_mean_ms DOUBLE NOT NULL, 
	load_tpot_mean_ms DOUBLE NOT NULL, 
	outside_ms DOUBLE NOT NULL, 
	created_at DATETIME NOT NULL, hit_rate DOUBLE, prefill_policy VARCHAR(16), pool_instances INTEGER, cache_blocks BIGINT, balance_threshold DOUBLE, rejected_prompt_share DOUBLE, reject_tbt_ms DOUBLE, trace_caches VARCHAR(120), device_prefix_share DOUBLE, host_prefix_share DOUBLE, ssd_prefix_share DOUBLE, remote_prefix_share DOUBLE, 
	CONSTRAINT pk_load PRIMARY KEY (id), 
	CONSTRAINT uq_load_key UNIQUE ("key"), 
	CONSTRAINT ck_load_load_status CHECK (load_status IN ('stable', 'saturated')), 
	CONSTRAINT fk_load_scenario_id_scenario FOREIGN KEY(scenario_id) REFERENCES scenario (id), 
	CONSTRAINT fk_load_arrival_id_arrival FOREIGN KEY(arrival_id) REFERENCES arrival (id), 
	CONSTRAINT fk_load_sweep_id_sweep FOREIGN KEY(sweep_id) REFERENCES sweep (id)
);
INSERT INTO "load" VALUES(1,'1111111111111111111111111111111111111111111111111111111111111111',2,1,1,'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd',0.5,2.5,256,100000,'current','random',NULL,20,0,1,'stable',1.5,0.25,100.0,100.0,10.0,30.0,'2026-11-24 07:11:00.446909',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "load" VALUES(2,'2222222222222222222222222222222222222222222222222222222222222222',2,1,1,'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd',1.0,2.5,256,100000,'current','random',NULL,20,0,1,'stable',3.0,0.5,200.0,100.0,10.0,30.0,'2026-11-24 07:11:00.446909',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'device,host:400',NULL,0.25,NULL,NULL);
INSERT INTO "load" VALUES(3,'3333333333333333333333333333333333333333333333333333333333333333',2,1,1,'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd',1.5,2.5,256,100000,'current','random',NULL,20,0,1,'stable',4.5,0.75,300.0,100.0,10.0,30.0,'2026-11-24 07:11:00.446909',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE load_block (
	id INTEGER NOT NULL, 
	scenario_id INTEGER NOT NULL, 
	sweep_id INTEGER NOT NULL, 
	settings_key VARCHAR(64) NOT NULL, 
	first_load INTEGER NOT NULL, 
	last_load INTEGER NOT NULL, 
	load_count INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_load_block PRIMARY KEY (id), 
	CONSTRAINT uq_load_block_settings_key UNIQUE (settings_key, first_load), 
	CONSTRAINT ck_load_block_loads CHECK (last_load >= first_load), 
	CONSTRAINT fk_load_block_scenario_id_scenario FOREIGN KEY(scenario_id) REFERENCES scenario (id), 
	CONSTRAINT fk_load_block_sweep_id_sweep FOREIGN KEY(sweep_id) REFERENCES sweep (id)
);
INSERT INTO "load_block" VALUES(1,2,1,'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd',1,3,3,'ce7bde4972417ec2269a1f5f5f22ca736478b66a2792132ee3525674b81db3ee','2026-11-24 07:11:00.446909');
CREATE TABLE load_cell (
	load_id INTEGER NOT NULL, 
	cells BLOB NOT NULL, 
	CONSTRAINT pk_load_cell PRIMARY KEY (load_id), 
	CONSTRAINT fk_load_cell_load_id_load FOREIGN KEY(load_id) REFERENCES load (id)
);
INSERT INTO "load_cell" VALUES(1,X'78DA636AE04960646160066216062626061400001B010104');
INSERT INTO "load_cell" VALUES(2,X'78DA636AE04960646160066216062626061400001B010104');
INSERT INTO "load_cell" VALUES(3,X'78DA636AE04960646160066216062626061400001B010104');
CREATE TABLE load_request (
	load_id INTEGER NOT NULL, 
	kept_requests INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	requests BLOB NOT NULL, 
	CONSTRAINT pk_load_request PRIMARY KEY (load_id), 
	CONSTRAINT fk_load_request_load_id_load FOREIGN KEY(load_id) REFERENCES load (id)
);
INSERT INTO "load_request" VALUES(3,20,'c4f908645a86e352b5d29e61c15aab6d46d44b7c41ca2c31343b585c7abdb493',X'789C6310C0045F1830810D16B105EC9840008BBA2B58C44080F13F9AC06B4CC088432F3A68C322A68E45CC009701E86EE1C404443A85815837E304E86E194830EA16EC60D42DD8019A5B009F111F5E');
CREATE TABLE load_token (
	load_id INTEGER NOT NULL, 
	gaps BLOB NOT NULL, 
	CONSTRAINT pk_load_token PRIMARY KEY (load_id), 
	CONSTRAINT fk_load_token_load_id_load FOREIGN KEY(load_id) REFERENCES load (id)
);
INSERT INTO "load_token" VALUES(1,X'78DA4B602A98CCF287010C04DF31FC07D10034660464');
INSERT INTO "load_token" VALUES(2,X'78DA4B602A98CCF287010C04DF31FC07D10034660464');
INSERT INTO "load_token" VALUES(3,X'78DA4B602A98CCF287010C04DF31FC07D10034660464');
CREATE TABLE measured_requests (
	measurement_id INTEGER NOT NULL, 
	asked_requests INTEGER NOT NULL, 
	failed_requests INTEGER NOT NULL, 
	requests BLOB NOT NULL, 
	CONSTRAINT pk_measured_requests PRIMARY KEY (measurement_id), 
	CONSTRAINT fk_measured_requests_measurement_id_measurement FOREIGN KEY(measurement_id) REFERENCES measurement (id)
);
CREATE TABLE measurement (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	source TEXT NOT NULL, 
	source_format VARCHAR(64) NOT NULL, 
	model VARCHAR(500), 
	device VARCHAR(200), 
	engine VARCHAR(64), 
	engine_version VARCHAR(64), 
	mode VARCHAR(32), 
	precision VARCHAR(64), 
	kv_precision VARCHAR(64), 
	num_devices INTEGER, 
	input_length DOUBLE, 
	output_length DOUBLE, 
	concurrency DOUBLE, 
	request_rate DOUBLE, 
	metrics TEXT NOT NULL, 
	definitions TEXT NOT NULL, 
	extra TEXT NOT NULL, 
	measured_at DATETIME, 
	imported_at DATETIME NOT NULL, 
	prefill_instances INTEGER, 
	prefill_tp INTEGER, 
	prefill_pp INTEGER, 
	prefill_dp INTEGER, 
	prefill_ep INTEGER, 
	prefill_moe_tp INTEGER, 
	prefill_moe_dp INTEGER, 
	prefill_batch_size DOUBLE, 
	decode_instances INTEGER, 
	decode_tp INTEGER, 
	decode_pp INTEGER, 
	decode_dp INTEGER, 
	decode_ep INTEGER, 
	decode_moe_tp INTEGER, 
	decode_moe_dp INTEGER, 
	decode_batch_size DOUBLE, prefill_dcp INTEGER, prefill_pcp INTEGER, prefill_micro_batches INTEGER, decode_dcp INTEGER, decode_pcp INTEGER, decode_micro_batches INTEGER, 
	CONSTRAINT pk_measurement PRIMARY KEY (id), 
	CONSTRAINT uq_measurement_key UNIQUE ("key")
);
INSERT INTO "measurement" VALUES(1,'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','a.csv:2','serving',NULL,'H100_SXM',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"tpot_ms_mean": 20.5}','{}','{}','2026-01-02 00:00:00.000000','2026-11-24 07:11:01.175511',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE model (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	architecture VARCHAR(200) NOT NULL, 
	parameters BIGINT NOT NULL, 
	active_parameters BIGINT NOT NULL, 
	spec TEXT NOT NULL, 
	CONSTRAINT pk_model PRIMARY KEY (id), 
	CONSTRAINT uq_model_key UNIQUE ("key")
);
INSERT INTO "model" VALUES(1,'141a6c9567eb5c2d40f45d19068f9534d7109aa4cfec36b039b5e349b74d6a11','Qwen/Qwen3-32B','qwen3',32800000000,32800000000,'{"architecture": "qwen3", "kv_bytes_per_token": 262144, "experts": 0}');
INSERT INTO "model" VALUES(2,'56b7ebc119112c6f4ad30feb0f8d4e2162c09aecad9929ccaef3c1ed8d119401','meta-llama/Llama-3.1-70B','llama',70600000000,70600000000,'{"architecture": "llama", "kv_bytes_per_token": 327680, "experts": 0}');
CREATE TABLE model_alias (
	alias VARCHAR(500) NOT NULL, 
	model_id INTEGER NOT NULL, 
	CONSTRAINT pk_model_alias PRIMARY KEY (alias, model_id), 
	CONSTRAINT fk_model_alias_model_id_model FOREIGN KEY(model_id) REFERENCES model (id)
);
INSERT INTO "model_alias" VALUES('Qwen/Qwen3-32B',1);
INSERT INTO "model_alias" VALUES('meta-llama/Llama-3.1-70B',2);
CREATE TABLE operator_set (
	"key" VARCHAR(64) NOT NULL, 
	payload TEXT NOT NULL, 
	torch_version VARCHAR(64) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_operator_set PRIMARY KEY ("key")
);
INSERT INTO "operator_set" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','["matmul"]','2.13.0','2026-11-24 07:11:01.174854');
CREATE TABLE part (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	folder TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	row_count BIGINT NOT NULL, 
	created_at DATETIME NOT NULL, 
	retired_at DATETIME, 
	CONSTRAINT pk_part PRIMARY KEY (id), 
	CONSTRAINT uq_part_name UNIQUE (name)
);
INSERT INTO "part" VALUES(1,'shard-1.parquet','/parts',1,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',4,'2026-01-02 00:00:00.000000','2026-01-03 00:00:00.000000');
CREATE TABLE part_block (
	first_block INTEGER NOT NULL, 
	last_block BIGINT NOT NULL, 
	part_id INTEGER NOT NULL, 
	CONSTRAINT pk_part_block PRIMARY KEY (first_block), 
	CONSTRAINT fk_part_block_part_id_part FOREIGN KEY(part_id) REFERENCES part (id), 
	CONSTRAINT ck_part_block_interval CHECK (last_block >= first_block)
);
CREATE TABLE part_claim (
	home VARCHAR(60) NOT NULL, 
	token VARCHAR(32) NOT NULL, 
	"database" TEXT NOT NULL, 
	claimed_at DATETIME NOT NULL, 
	CONSTRAINT pk_part_claim PRIMARY KEY (home)
);
CREATE TABLE part_file (
	name VARCHAR(200) NOT NULL, 
	footer VARCHAR(64) NOT NULL, 
	mtime_ns BIGINT, 
	ctime_ns BIGINT, 
	inode BIGINT, 
	CONSTRAINT pk_part_file PRIMARY KEY (name)
);
CREATE TABLE part_subject (
	part_id INTEGER NOT NULL, 
	model_id INTEGER NOT NULL, 
	workload_id INTEGER NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	probes BIGINT NOT NULL, 
	CONSTRAINT pk_part_subject PRIMARY KEY (part_id, model_id, workload_id, phase), 
	CONSTRAINT fk_part_subject_part_id_part FOREIGN KEY(part_id) REFERENCES part (id), 
	CONSTRAINT fk_part_subject_model_id_model FOREIGN KEY(model_id) REFERENCES model (id), 
	CONSTRAINT fk_part_subject_workload_id_workload FOREIGN KEY(workload_id) REFERENCES workload (id)
);
CREATE TABLE part_thinned (
	part_id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	folder TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	row_count BIGINT NOT NULL, 
	rules INTEGER NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_part_thinned PRIMARY KEY (part_id), 
	CONSTRAINT fk_part_thinned_part_id_part FOREIGN KEY(part_id) REFERENCES part (id), 
	CONSTRAINT uq_part_thinned_name UNIQUE (name)
);
INSERT INTO "part_thinned" VALUES(1,'shard-thin-1.parquet','/parts',1,'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',2,1,'2026-01-02 00:00:00.000000');
CREATE TABLE "plan" (
	id INTEGER NOT NULL, 
	tp INTEGER NOT NULL, 
	pp INTEGER NOT NULL, 
	dp INTEGER NOT NULL, 
	ep INTEGER NOT NULL, 
	moe_tp INTEGER NOT NULL, 
	moe_dp INTEGER NOT NULL, 
	num_devices INTEGER NOT NULL, 
	dcp INTEGER DEFAULT '1' NOT NULL, 
	redundant_experts INTEGER DEFAULT '0' NOT NULL, 
	pcp INTEGER DEFAULT '1' NOT NULL, 
	micro_batches INTEGER DEFAULT '1' NOT NULL, 
	encoder_devices INTEGER DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_plan PRIMARY KEY (id), 
	CONSTRAINT uq_plan_tp UNIQUE (tp, pp, dp, ep, moe_tp, moe_dp, dcp, redundant_experts, pcp, micro_batches, encoder_devices)
);
INSERT INTO "plan" VALUES(1,1,1,1,1,1,1,1,1,0,1,1,0);
INSERT INTO "plan" VALUES(2,8,1,1,1,1,1,8,1,0,1,1,0);
CREATE TABLE precision (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	linear_quantization VARCHAR(32) NOT NULL, 
	experts_quantization VARCHAR(32) NOT NULL, 
	attention_quantization VARCHAR(32) NOT NULL, 
	mxfp4_group_size INTEGER NOT NULL, 
	spec TEXT NOT NULL, mixers_quantization VARCHAR(32), head_quantization VARCHAR(32), drafts_quantization VARCHAR(32), 
	CONSTRAINT pk_precision PRIMARY KEY (id), 
	CONSTRAINT uq_precision_key UNIQUE ("key")
);
INSERT INTO "precision" VALUES(1,'dd0c780e14c7df82386a5640b92988bd1ab8b8999d909d994e9589cdbe07ac84','BF16','BF16','DISABLED',32,'["BF16", "BF16", "DISABLED", 2.0, 1.0]',NULL,NULL,NULL);
INSERT INTO "precision" VALUES(2,'8888888888888888888888888888888888888888888888888888888888888888','BF16','BF16','DISABLED',32,'["BF16", "BF16", "DISABLED", 2.0, 1.0]','BF16','FP8','BF16');
CREATE TABLE price (
	device_name VARCHAR(200) NOT NULL, 
	effective_from VARCHAR(10) NOT NULL, 
	usd_per_device_hour DOUBLE, 
	watts_per_device DOUBLE, 
	source TEXT NOT NULL, 
	CONSTRAINT pk_price PRIMARY KEY (device_name, effective_from)
);
INSERT INTO "price" VALUES('H100_SXM','2026-01-01',2.5,700.0,'');
CREATE TABLE probe (
	scenario_id INTEGER NOT NULL, 
	batch_size INTEGER NOT NULL, 
	concurrency BIGINT NOT NULL, 
	ttft_ms DOUBLE, 
	prefill_step_ms DOUBLE, 
	prefill_chunks BIGINT, 
	makespan_ms DOUBLE, 
	decode_step_ms DOUBLE, 
	tokens_per_step DOUBLE, 
	tpot_inclusive_ms DOUBLE, 
	tpot_exclusive_ms DOUBLE, 
	e2e_ms DOUBLE, 
	weight_bytes BIGINT NOT NULL, 
	kv_cache_bytes BIGINT NOT NULL, 
	kv_cache_mean_bytes BIGINT NOT NULL, 
	activation_bytes BIGINT NOT NULL, 
	kv_bytes_per_request BIGINT NOT NULL, 
	prefill_step_matrix_ms DOUBLE, 
	prefill_step_vector_ms DOUBLE, 
	prefill_step_memory_ms DOUBLE, 
	prefill_step_communication_ms DOUBLE, 
	prefill_step_overhead_ms DOUBLE, 
	decode_step_matrix_ms DOUBLE, 
	decode_step_vector_ms DOUBLE, 
	decode_step_memory_ms DOUBLE, 
	decode_step_communication_ms DOUBLE, 
	decode_step_overhead_ms DOUBLE, 
	realised_input_length_mean DOUBLE, 
	decode_step_p50_ms DOUBLE, 
	decode_step_p90_ms DOUBLE, 
	decode_step_p99_ms DOUBLE, prompt_service_ms DOUBLE, ttft_in_step_ms DOUBLE, 
	CONSTRAINT pk_probe PRIMARY KEY (scenario_id, batch_size), 
	CONSTRAINT ck_probe_batch_size CHECK (batch_size >= 1), 
	CONSTRAINT fk_probe_scenario_id_scenario FOREIGN KEY(scenario_id) REFERENCES scenario (id)
)
 WITHOUT ROWID

;
INSERT INTO "probe" VALUES(2,1,1,2.28574295760831844867e+01,2.28574295760831844867e+01,1,2.28574295760831844867e+01,3.89343448905724187625e+00,1.0,3.94084447677480698146e+00,3.89343448905724187625e+00,1.57633779070992272866e+03,8200000000,64487424,57933824,500040000,411041792,1.85722952477249734215e+01,3.3432835820895519252e-02,3.05970149253731360516e+00,0.392,0.8,1.18445760508450095155e-02,2.13219616204690828832e-05,3.0813185910447762339e+00,0.00025,0.8,320.0,3.89343448905724187625e+00,4.08810621351010450297e+00,4.28277793796296624151e+00,NULL,4.57148591521663689735e+01);
INSERT INTO "probe" VALUES(2,2,2,4.18551576596290502135e+01,4.18551576596290502135e+01,1,4.18551576596290502135e+01,3.92716748557717032497e+00,1.0,4.0219874610123,3.92716748557717032497e+00,1608.79498440492,8200000000,128974848,115867648,500080000,411041792,3.71445904954499468426e+01,6.68656716417910385041e-02,3.05970149253731360516e+00,0.784,0.8,2.3689152101690019031e-02,4.26439232409381657664e-05,3.10293568955223886263e+00,0.0005,0.8,800.0,3.92716748557717032497e+00,4.12352585985602893003e+00,4.3198842341348875351e+00,NULL,83.7103153192581);
INSERT INTO "probe" VALUES(2,3,3,6.08528857431749301562e+01,6.08528857431749301562e+01,1,6.08528857431749301562e+01,3.96090048209709788551e+00,1.0,4.10313044524979275706e+00,3.96090048209709788551e+00,1.64125217809991704601e+03,8200000000,193462272,173801472,500120000,411041792,5.57168857431749273709e+01,1.00298507462686564695e-01,3.05970149253731360516e+00,1.176,0.8,3.55337281525350268118e-02,6.3965884861407252041e-05,3.12455278805970149136e+00,0.00075,0.8,2240.0,3.96090048209709788551e+00,4.1589455062019533571e+00,4.35699053030680794051e+00,NULL,1.21705771486349860314e+02);
INSERT INTO "probe" VALUES(2,4,4,7.98506138267207887793e+01,7.98506138267207887793e+01,1,7.98506138267207887793e+01,3.99463347861702633423e+00,1.0,4.18427342948728586691e+00,3.99463347861702633423e+00,1.67370937179491420469e+03,8200000000,257949696,231735296,500160000,411041792,74.2891809908999,1.33731343283582077008e-01,3.05970149253731360516e+00,1.568,0.8,4.73783042033800380621e-02,8.52878464818763315329e-05,3.14616988656716412009e+00,0.001,0.8,1760.0,3.99463347861702633423e+00,4.19436515254787778417e+00,4.39409682647872923411e+00,NULL,1.59701227653441577558e+02);
INSERT INTO "probe" VALUES(4,1,1,4.62653445361664879004e+01,4.62653445361664879004e+01,1,4.62653445361664879004e+01,NULL,NULL,NULL,NULL,NULL,8200000000,163840000,139264000,500040000,917504000,4.14560161779575366827e+01,0.0746268656716418,3.05970149253731360516e+00,0.875,0.8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,2.31326722680832439502e+01,NULL);
INSERT INTO "probe" VALUES(4,2,2,8.86709875797956641445e+01,8.86709875797956641445e+01,1,8.86709875797956641445e+01,NULL,NULL,NULL,NULL,NULL,8200000000,327680000,278528000,500080000,917504000,8.29120323559150733654e+01,1.49253731343283596588e-01,3.05970149253731360516e+00,1.75,0.8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,4.43354937898978320722e+01,NULL);
INSERT INTO "probe" VALUES(4,3,3,1.31076630623424847496e+02,1.31076630623424847496e+02,1,1.31076630623424847496e+02,NULL,NULL,NULL,NULL,NULL,8200000000,491520000,417792000,500120000,917504000,1.24368048533872595836e+02,2.23880597014925381005e-01,3.05970149253731360516e+00,2.625,0.8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,6.55383153117124237505e+01,NULL);
INSERT INTO "probe" VALUES(4,4,4,1.73482273667054016637e+02,1.73482273667054016637e+02,1,1.73482273667054016637e+02,NULL,NULL,NULL,NULL,NULL,8200000000,655360000,557056000,500160000,917504000,1.65824064711830146739e+02,2.98507462686567193177e-01,3.05970149253731360516e+00,3.5,0.8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,8.67411368335270083207e+01,NULL);
INSERT INTO "probe" VALUES(4,5,5,2.15887916710683185777e+02,2.15887916710683185777e+02,1,2.15887916710683185777e+02,NULL,NULL,NULL,NULL,NULL,8200000000,819200000,696320000,500200000,917504000,2.07280080889787654985e+02,0.373134328358209,3.05970149253731360516e+00,4.375,0.8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.07943958355341592888e+02,NULL);
INSERT INTO "probe" VALUES(4,6,6,2.58293559754312354917e+02,2.58293559754312354917e+02,1,2.58293559754312354917e+02,NULL,NULL,NULL,NULL,NULL,8200000000,983040000,835584000,500240000,917504000,2.48736097067745191672e+02,4.4776119402985076201e-01,3.05970149253731360516e+00,5.25,0.8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.29146779877156177459e+02,NULL);
INSERT INTO "probe" VALUES(5,1,1,NULL,NULL,NULL,NULL,3.92378156965425706204e+00,1.0,3.92378156965425706204e+00,3.92378156965425706204e+00,NULL,8200000000,163840000,139264000,500040000,917504000,NULL,NULL,NULL,NULL,NULL,1.18445760508450095155e-02,2.13219616204690828832e-05,3.11166567164179141968e+00,0.00025,0.8,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "probe" VALUES(5,2,2,NULL,NULL,NULL,NULL,3.9878616467712,1.0,3.9878616467712,3.9878616467712,NULL,8200000000,327680000,278528000,500080000,917504000,NULL,NULL,NULL,NULL,NULL,2.3689152101690019031e-02,4.26439232409381657664e-05,3.16362985074626879011e+00,0.0005,0.8,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "probe" VALUES(5,3,3,NULL,NULL,NULL,NULL,4.05194172388814344287e+00,1.0,4.05194172388814344287e+00,4.05194172388814344287e+00,NULL,8200000000,491520000,417792000,500120000,917504000,NULL,NULL,NULL,NULL,NULL,3.55337281525350268118e-02,6.3965884861407252041e-05,3.21559402985074660463e+00,0.00075,0.8,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "probe" VALUES(5,4,4,NULL,NULL,NULL,NULL,4.1160218010050861892e+00,1.0,4.1160218010050861892e+00,4.1160218010050861892e+00,NULL,8200000000,655360000,557056000,500160000,917504000,NULL,NULL,NULL,NULL,NULL,4.73783042033800380621e-02,8.52878464818763315329e-05,3.26755820895522397506e+00,0.001,0.8,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "probe" VALUES(6,1,1,NULL,NULL,NULL,NULL,3.92378156965425706204e+00,1.0,3.92378156965425706204e+00,3.92378156965425706204e+00,NULL,8200000000,163840000,139264000,500040000,917504000,NULL,NULL,NULL,NULL,NULL,1.18445760508450095155e-02,2.13219616204690828832e-05,3.11166567164179141968e+00,0.00025,0.8,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "probe" VALUES(6,2,2,NULL,NULL,NULL,NULL,3.9878616467712,1.0,3.9878616467712,3.9878616467712,NULL,8200000000,327680000,278528000,500080000,917504000,NULL,NULL,NULL,NULL,NULL,2.3689152101690019031e-02,4.26439232409381657664e-05,3.16362985074626879011e+00,0.0005,0.8,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE scenario (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	subject_id INTEGER NOT NULL, 
	device_id INTEGER NOT NULL, 
	formula_version INTEGER NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	reason TEXT, 
	assumptions TEXT, 
	created_at DATETIME NOT NULL, launchable_by VARCHAR(200), 
	CONSTRAINT pk_scenario PRIMARY KEY (id), 
	CONSTRAINT ck_scenario_failure_has_reason CHECK (status = 'ok' OR reason IS NOT NULL), 
	CONSTRAINT ck_scenario_status CHECK (status IN ('ok', 'illegal', 'unsupported', 'error')), 
	CONSTRAINT uq_scenario_key UNIQUE ("key"), 
	CONSTRAINT fk_scenario_subject_id_subject FOREIGN KEY(subject_id) REFERENCES subject (id), 
	CONSTRAINT fk_scenario_device_id_device FOREIGN KEY(device_id) REFERENCES device (id)
);
INSERT INTO "scenario" VALUES(1,'0ecc8b6bf641f556d62cc8ed00d00aad0c6c000ac4853dc79c6592bf643d6e67',2,2,2,'illegal','weights of 132 GiB exceed the 64 GiB of one device',NULL,'2026-11-24 07:11:00.006059',NULL);
INSERT INTO "scenario" VALUES(2,'1234e406014a164c1f67e58e052e14b8d4a5a44076adad8bf197942aadc095b3',1,1,2,'ok',NULL,NULL,'2026-11-24 07:11:00.006056',NULL);
INSERT INTO "scenario" VALUES(3,'5f0e358be2a995e5c6304b11ad1621f755bb197850d75713a45293c4b0d5ed04',2,2,1,'illegal','weights of 132 GiB exceed the 64 GiB of one device',NULL,'2026-11-24 07:11:00.006063',NULL);
INSERT INTO "scenario" VALUES(4,'6c3fb5b21f217483b914817574c08631073c6f5ce3922de7f5220a3b2150ea03',4,1,2,'ok',NULL,NULL,'2026-11-24 07:11:00.006031','vllm,sglang');
INSERT INTO "scenario" VALUES(5,'9a1f682f17327de697d2079c60a7f02083709c92df12efac55e1285eedb40b36',3,1,2,'ok',NULL,NULL,'2026-11-24 07:11:00.006052',NULL);
INSERT INTO "scenario" VALUES(6,'4edabc03cf8ad485a93f5d043e2851f2482747ae6cc581cd481bd2072357b654',5,1,2,'ok',NULL,NULL,'2026-11-24 07:11:01.035498',NULL);
CREATE TABLE shard (
	sweep_id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	scenarios INTEGER NOT NULL, 
	probes BIGINT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT, 
	changed_at DATETIME NOT NULL, 
	CONSTRAINT pk_shard PRIMARY KEY (sweep_id, "key"), 
	CONSTRAINT fk_shard_sweep_id_sweep FOREIGN KEY(sweep_id) REFERENCES sweep (id), 
	CONSTRAINT ck_shard_state CHECK (state IN ('waiting', 'stored', 'failed'))
);
INSERT INTO "shard" VALUES(1,'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',1,4,'failed','no space left','2026-11-24 07:11:00.586025');
CREATE TABLE store_identity (
	id INTEGER NOT NULL, 
	store_id VARCHAR(32) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_store_identity PRIMARY KEY (id), 
	CONSTRAINT ck_store_identity_single_row CHECK (id = 1)
);
INSERT INTO "store_identity" VALUES(1,'9d0c7e4ec860cd1e9cdbd7a419a7ddc8','2026-11-24 07:10:59.496003');
CREATE TABLE subject (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	model_id INTEGER NOT NULL, 
	device_name VARCHAR(200) NOT NULL, 
	precision_id INTEGER NOT NULL, 
	plan_id INTEGER NOT NULL, 
	workload_id INTEGER NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	convention VARCHAR(16) NOT NULL, 
	compile BOOLEAN NOT NULL, 
	serving_model VARCHAR(64) NOT NULL, 
	serving_cost_ms DOUBLE NOT NULL, shortest_length DOUBLE, prompts_per_user INTEGER, poll_steps INTEGER, seats INTEGER, wait_steps INTEGER, routing VARCHAR(32), unusual_service VARCHAR(100), 
	CONSTRAINT pk_subject PRIMARY KEY (id), 
	CONSTRAINT uq_subject_key UNIQUE ("key"), 
	CONSTRAINT fk_subject_model_id_model FOREIGN KEY(model_id) REFERENCES model (id), 
	CONSTRAINT fk_subject_precision_id_precision FOREIGN KEY(precision_id) REFERENCES precision (id), 
	CONSTRAINT fk_subject_plan_id_plan FOREIGN KEY(plan_id) REFERENCES "plan" (id), 
	CONSTRAINT fk_subject_workload_id_workload FOREIGN KEY(workload_id) REFERENCES workload (id)
);
INSERT INTO "subject" VALUES(1,'638a6580f54e3e54c41f2fb0543f9df2fffbba2ff36778bc32c84e5b75cd437a',1,'H100_SXM',1,2,2,'aggregated','physical',1,'waves',0.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "subject" VALUES(2,'71d2ca2860601122bee0947ed51d3db8def0530e0f2fac434be77bd8cf9fdba2',2,'ATLAS_800_A3',1,1,3,'prefill','physical',1,'waves',0.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "subject" VALUES(3,'902b7d13b9b442d048721c97bcc4647b8100949480ef68c13c5283b6ca9e5e0a',1,'H100_SXM',1,2,1,'decode','physical',1,'waves',0.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "subject" VALUES(4,'f564d0884d13613fcfa5b9979cbeaf4cd519676673eaf8e48a44a172baf6fbc7',1,'H100_SXM',1,2,1,'prefill','physical',1,'waves',0.0,0.8,10,2,256,40,'power_law_1.2','shortest_length,seats');
INSERT INTO "subject" VALUES(5,'5b45cb6cfbdefc942d9c0eb92e97e474bae20e62e7a5929a2cb994f63534f5ae',1,'H100_SXM',2,2,4,'decode','physical',1,'waves',0.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE sweep (
	id INTEGER NOT NULL, 
	"key" VARCHAR(32) NOT NULL, 
	label VARCHAR(200), 
	arguments TEXT NOT NULL, 
	program_version VARCHAR(64) NOT NULL, 
	started_at DATETIME NOT NULL, 
	finished_at DATETIME, 
	status VARCHAR(16) NOT NULL, 
	probes_stored BIGINT NOT NULL, 
	probes_known BIGINT NOT NULL, 
	scenarios_failed INTEGER NOT NULL, kind VARCHAR(16) DEFAULT 'request' NOT NULL CONSTRAINT ck_sweep_kind CHECK (kind IN ('request', 'validation', 'import')), 
	CONSTRAINT pk_sweep PRIMARY KEY (id), 
	CONSTRAINT ck_sweep_status CHECK (status IN ('running', 'finished', 'interrupted', 'failed')), 
	CONSTRAINT uq_sweep_key UNIQUE ("key")
);
INSERT INTO "sweep" VALUES(1,'00000000000000000000000000000001','first','{"generated": true}','0.1.0','2025-01-01 00:00:00.000000','2026-11-24 07:11:00.622754','finished',12,0,2,'request');
INSERT INTO "sweep" VALUES(2,'00000000000000000000000000000002','wider','{"generated": true}','0.1.0','2025-01-01 00:00:00.000000','2026-11-24 07:11:00.831675','interrupted',2,2,0,'import');
INSERT INTO "sweep" VALUES(3,'00000000000000000000000000000003',NULL,'{"generated": true}','0.1.0','2025-01-01 00:00:00.000000',NULL,'running',0,0,0,'validation');
CREATE TABLE sweep_interval (
	sweep_id INTEGER NOT NULL, 
	scenario_id INTEGER NOT NULL, 
	first_batch_size INTEGER NOT NULL, 
	last_batch_size INTEGER NOT NULL, 
	CONSTRAINT pk_sweep_interval PRIMARY KEY (sweep_id, scenario_id, first_batch_size), 
	CONSTRAINT fk_sweep_interval_sweep_id_sweep FOREIGN KEY(sweep_id) REFERENCES sweep (id), 
	CONSTRAINT fk_sweep_interval_scenario_id_scenario FOREIGN KEY(scenario_id) REFERENCES scenario (id)
);
INSERT INTO "sweep_interval" VALUES(1,1,0,0);
INSERT INTO "sweep_interval" VALUES(1,3,0,0);
INSERT INTO "sweep_interval" VALUES(1,4,1,4);
INSERT INTO "sweep_interval" VALUES(1,5,1,4);
INSERT INTO "sweep_interval" VALUES(1,2,1,4);
INSERT INTO "sweep_interval" VALUES(2,4,3,6);
INSERT INTO "sweep_interval" VALUES(3,6,1,2);
CREATE TABLE tombstone (
	id INTEGER NOT NULL, 
	sweep_id INTEGER, 
	scenario_id INTEGER, 
	reason TEXT NOT NULL, 
	voided_at DATETIME NOT NULL, 
	lifted_at DATETIME, 
	CONSTRAINT pk_tombstone PRIMARY KEY (id), 
	CONSTRAINT ck_tombstone_one_target CHECK ((sweep_id IS NULL) <> (scenario_id IS NULL)), 
	CONSTRAINT fk_tombstone_sweep_id_sweep FOREIGN KEY(sweep_id) REFERENCES sweep (id), 
	CONSTRAINT fk_tombstone_scenario_id_scenario FOREIGN KEY(scenario_id) REFERENCES scenario (id)
);
INSERT INTO "tombstone" VALUES(1,3,NULL,'the wrong driver','2026-11-24 07:11:01.071665',NULL);
INSERT INTO "tombstone" VALUES(2,NULL,5,'a mistake','2026-11-24 07:11:01.108365','2026-11-24 07:11:01.174378');
CREATE TABLE validation (
	measurement_id INTEGER NOT NULL, 
	metric VARCHAR(64) NOT NULL, 
	scenario_id INTEGER NOT NULL, 
	batch_size INTEGER NOT NULL, 
	measured DOUBLE NOT NULL, 
	predicted DOUBLE NOT NULL, 
	signed_error DOUBLE NOT NULL, 
	region VARCHAR(200) NOT NULL, 
	created_at DATETIME NOT NULL, knowledge VARCHAR(8), 
	CONSTRAINT pk_validation PRIMARY KEY (measurement_id, metric, scenario_id), 
	CONSTRAINT fk_validation_measurement_id_measurement FOREIGN KEY(measurement_id) REFERENCES measurement (id), 
	CONSTRAINT fk_validation_scenario_id_scenario FOREIGN KEY(scenario_id) REFERENCES scenario (id)
);
INSERT INTO "validation" VALUES(1,'tpot_ms_mean',5,2,20.5,16.4,-2.00000000000000066613e-01,'h100, dense','2026-11-24 07:11:01.233205',NULL);
CREATE TABLE workload (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	label VARCHAR(200) NOT NULL, 
	name VARCHAR(200), 
	input_length INTEGER, 
	input_length_mean DOUBLE NOT NULL, 
	output_length DOUBLE NOT NULL, 
	prefix_cache_hit_rate DOUBLE NOT NULL, 
	max_batched_tokens BIGINT NOT NULL, 
	mtp_tokens SMALLINT NOT NULL, 
	mtp_acceptance TEXT NOT NULL, 
	spec TEXT NOT NULL, images INTEGER, image_width INTEGER, image_height INTEGER, image_patches INTEGER, image_tokens INTEGER, encoder_split VARCHAR(16), host_hit_rate DOUBLE DEFAULT '0' NOT NULL, ssd_hit_rate DOUBLE DEFAULT '0' NOT NULL, remote_hit_rate DOUBLE DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_workload PRIMARY KEY (id), 
	CONSTRAINT uq_workload_key UNIQUE ("key")
);
INSERT INTO "workload" VALUES(1,'94f595855bcd02787e028be522888dd6c4bc8f9682d044c4a1d88d5dca096ac8','3500/1500',NULL,3500,3500.0,1500.0,0.0,8192,0,'[]','[3500, 1500, 0.0, 0]',NULL,NULL,NULL,NULL,NULL,NULL,0.0,0.0,0.0);
INSERT INTO "workload" VALUES(2,'c7c3edfa4f954bdad2587134ed671804e73d8a70eefc4f8a744bcf7dfff98dc6','mean 1568/400','chat-mix',NULL,1568.0,400.0,0.0,8192,0,'[]','[null, 400, 0.0, 0]',NULL,NULL,NULL,NULL,NULL,NULL,0.0,0.0,0.0);
INSERT INTO "workload" VALUES(3,'f720a5bf8e0c65e31b76e2af8eaa7e4d36eeaef81ebd06b83b0e12a5f227ca8b','1024/1024',NULL,1024,1024.0,1024.0,0.0,8192,0,'[]','[1024, 1024, 0.0, 0]',NULL,NULL,NULL,NULL,NULL,NULL,0.0,0.0,0.0);
INSERT INTO "workload" VALUES(4,'9999999999999999999999999999999999999999999999999999999999999999','3500/1500 with 2 x 1024x768',NULL,1024,1024.0,1024.0,0.0,8192,0,'[]','[1024, 1024, 0.0, 0]',2,1024,768,3072,768,'data',0.0,0.0,0.0);
CREATE TABLE workload_bin (
	workload_id INTEGER NOT NULL, 
	bin_index INTEGER NOT NULL, 
	min_input_length INTEGER NOT NULL, 
	max_input_length INTEGER NOT NULL, 
	input_length DOUBLE NOT NULL, 
	output_length DOUBLE NOT NULL, 
	weight DOUBLE NOT NULL, 
	prefix_cache_hit_rate DOUBLE NOT NULL, 
	CONSTRAINT pk_workload_bin PRIMARY KEY (workload_id, bin_index), 
	CONSTRAINT fk_workload_bin_workload_id_workload FOREIGN KEY(workload_id) REFERENCES workload (id)
);
INSERT INTO "workload_bin" VALUES(2,0,128,512,320.0,400.0,0.5,0.0);
INSERT INTO "workload_bin" VALUES(2,1,513,2048,1280.0,400.0,0.3,0.0);
INSERT INTO "workload_bin" VALUES(2,2,2049,8192,5120.0,400.0,0.2,0.0);
CREATE TABLE workload_name (
	name VARCHAR(200) NOT NULL, 
	workload_id INTEGER NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_workload_name PRIMARY KEY (name), 
	CONSTRAINT fk_workload_name_workload_id_workload FOREIGN KEY(workload_id) REFERENCES workload (id)
);
INSERT INTO "workload_name" VALUES('chat-mix',2,'2026-11-24 07:10:59.966390');
CREATE INDEX ix_device_name ON device (name);
CREATE INDEX ix_model_name ON model (name);
CREATE INDEX ix_workload_name ON workload (name);
CREATE INDEX ix_sweep_started_at ON sweep (started_at);
CREATE INDEX ix_sweep_label ON sweep (label);
CREATE INDEX ix_measurement_model ON measurement (model);
CREATE INDEX ix_measurement_device ON measurement (device);
CREATE INDEX ix_workload_name_workload_id ON workload_name (workload_id);
CREATE INDEX ix_subject_model_id ON subject (model_id);
CREATE INDEX ix_subject_workload_id ON subject (workload_id);
CREATE INDEX ix_subject_device_name ON subject (device_name);
CREATE INDEX ix_scenario_device_id ON scenario (device_id);
CREATE INDEX ix_scenario_subject_id ON scenario (subject_id);
CREATE INDEX ix_block_sweep_id ON block (sweep_id);
CREATE INDEX ix_sweep_interval_scenario_id ON sweep_interval (scenario_id);
CREATE INDEX ix_validation_region ON validation (region);
CREATE INDEX ix_tombstone_sweep_id ON tombstone (sweep_id);
CREATE INDEX ix_tombstone_active ON tombstone (lifted_at);
CREATE INDEX ix_tombstone_scenario_id ON tombstone (scenario_id);
CREATE TRIGGER block_refuses_delete BEFORE DELETE ON block BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END;
CREATE TRIGGER probe_refuses_update BEFORE UPDATE ON probe BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END;
CREATE TRIGGER probe_refuses_delete BEFORE DELETE ON probe BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END;
CREATE TRIGGER composition_refuses_update BEFORE UPDATE ON composition BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END;
CREATE TRIGGER composition_refuses_delete BEFORE DELETE ON composition BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END;
CREATE TRIGGER block_refuses_update BEFORE UPDATE ON block BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END;
CREATE INDEX ix_load_scenario_id ON load (scenario_id);
CREATE INDEX ix_load_arrival_id ON load (arrival_id);
CREATE INDEX ix_load_sweep_id ON load (sweep_id);
CREATE INDEX ix_load_settings_key ON load (settings_key);
CREATE INDEX ix_load_block_scenario_id ON load_block (scenario_id);
CREATE INDEX ix_load_block_sweep_id ON load_block (sweep_id);
CREATE TRIGGER load_block_refuses_update BEFORE UPDATE ON load_block BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE TRIGGER load_block_refuses_delete BEFORE DELETE ON load_block BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE TRIGGER load_refuses_update BEFORE UPDATE ON load BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE TRIGGER load_refuses_delete BEFORE DELETE ON load BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE TRIGGER load_cell_refuses_update BEFORE UPDATE ON load_cell BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE TRIGGER load_cell_refuses_delete BEFORE DELETE ON load_cell BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE TRIGGER load_token_refuses_update BEFORE UPDATE ON load_token BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE TRIGGER load_token_refuses_delete BEFORE DELETE ON load_token BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE TRIGGER load_request_refuses_update BEFORE UPDATE ON load_request BEGIN SELECT RAISE(ABORT, 'a committed load never changes'); END;
CREATE INDEX ix_part_block_part_id ON part_block (part_id);
CREATE INDEX ix_part_subject_model_id ON part_subject (model_id);
CREATE VIEW probes AS SELECT (substr(scenario, 1, 8) || ':' || batch_size) AS probe, subject, scenario, first_sweep, stored_at, formula_version, family, model, architecture, device, device_key, vendor, device_memory_bytes, tp, pp, dp, ep, moe_tp, moe_dp, dcp, redundant_experts, pcp, micro_batches, encoder_devices, num_devices, linear_quantization, experts_quantization, attention_quantization, mxfp4_group_size, mixers_quantization, head_quantization, drafts_quantization, compile, convention, serving_model, serving_cost_ms, shortest_length, prompts_per_user, poll_steps, seats, wait_steps, routing, unusual_service, launchable, workload, workload_key, input_length, input_length_mean, output_length, prefix_cache_hit_rate, host_hit_rate, ssd_hit_rate, remote_hit_rate, max_batched_tokens, mtp_tokens, phase, batch_size, concurrency, ttft_ms, prefill_step_ms, prefill_chunks, makespan_ms, decode_step_ms, tokens_per_step, tpot_inclusive_ms, tpot_exclusive_ms, e2e_ms, weight_bytes, kv_cache_bytes, kv_cache_mean_bytes, activation_bytes, kv_bytes_per_request, prefill_step_matrix_ms, prefill_step_vector_ms, prefill_step_memory_ms, prefill_step_communication_ms, prefill_step_overhead_ms, decode_step_matrix_ms, decode_step_vector_ms, decode_step_memory_ms, decode_step_communication_ms, decode_step_overhead_ms, realised_input_length_mean, decode_step_p50_ms, decode_step_p90_ms, decode_step_p99_ms, prompt_service_ms, ttft_in_step_ms, ('tp' || tp || 'pp' || pp || 'dp' || dp || coalesce(CASE WHEN ep > 1 OR moe_tp > 1 OR moe_dp > 1 THEN ('ep' || ep || 'moetp' || moe_tp || 'moedp' || moe_dp) END, '') || coalesce(CASE WHEN redundant_experts > 0 THEN ('red' || redundant_experts) END, '') || coalesce(CASE WHEN dcp > 1 THEN ('dcp' || dcp) END, '') || coalesce(CASE WHEN pcp > 1 THEN ('pcp' || pcp) END, '') || coalesce(CASE WHEN micro_batches > 1 THEN ('mb' || micro_batches) END, '') || coalesce(CASE WHEN encoder_devices > 0 THEN ('enc' || encoder_devices) END, '')) AS plan, CASE WHEN phase = 'prefill' THEN (1000.0 * concurrency / nullif(makespan_ms, 0) * (coalesce(realised_input_length_mean / input_length_mean, 1))) END AS prefill_capacity_qps, CASE WHEN phase = 'prefill' THEN 1000.0 * concurrency / nullif(ttft_ms, 0) * (coalesce(realised_input_length_mean / input_length_mean, 1)) END AS prefill_ttft_qps, CASE WHEN phase = 'decode' THEN (concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0)) / (CASE WHEN output_length - 1 > 1 THEN output_length - 1 ELSE 1 END) END AS decode_minus_one_qps, CASE WHEN phase = 'decode' THEN (concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0)) / output_length END AS decode_full_qps, CASE phase WHEN 'prefill' THEN (1000.0 * concurrency / nullif(makespan_ms, 0) * (coalesce(realised_input_length_mean / input_length_mean, 1))) WHEN 'decode' THEN (concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0)) / (CASE WHEN output_length - 1 > 1 THEN output_length - 1 ELSE 1 END) ELSE (1000.0 * concurrency / nullif(e2e_ms + (CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / input_length_mean, 1)) - 1) END), 0)) END AS requests_per_s, CASE phase WHEN 'prefill' THEN (1000.0 * concurrency / nullif(makespan_ms, 0) * (coalesce(realised_input_length_mean / input_length_mean, 1))) WHEN 'aggregated' THEN (1000.0 * concurrency / nullif(e2e_ms + (CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / input_length_mean, 1)) - 1) END), 0)) END * input_length_mean AS input_tokens_per_s, CASE phase WHEN 'decode' THEN (concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0)) WHEN 'aggregated' THEN (1000.0 * concurrency / nullif(e2e_ms + (CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / input_length_mean, 1)) - 1) END), 0)) * output_length END AS output_tokens_per_s, CASE WHEN phase = 'aggregated' THEN 1000.0 * concurrency * output_length / (ttft_ms + tpot_inclusive_ms * output_length + 2 * (CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / input_length_mean, 1)) - 1) END)) END AS output_tokens_per_s_twice, CASE phase WHEN 'decode' THEN (concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0)) WHEN 'aggregated' THEN (1000.0 * concurrency / nullif(e2e_ms + (CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / (coalesce(realised_input_length_mean / input_length_mean, 1)) - 1) END), 0)) * output_length END / num_devices AS output_tokens_per_s_per_device, 1000.0 / nullif(tpot_exclusive_ms, 0) AS tokens_per_s_per_user, realised_input_length_mean / input_length_mean - 1 AS input_length_bias, scenario_id, block_id FROM (SELECT sc.id AS scenario_id, b.id AS block_id, sj.key AS subject, sc.key AS scenario, sw.key AS first_sweep, b.created_at AS stored_at, sc.formula_version AS formula_version, d.family AS family, m.name AS model, m.architecture AS architecture, d.name AS device, d.key AS device_key, d.vendor AS vendor, d.memory_bytes AS device_memory_bytes, p.tp AS tp, p.pp AS pp, p.dp AS dp, p.ep AS ep, p.moe_tp AS moe_tp, p.moe_dp AS moe_dp, p.dcp AS dcp, p.redundant_experts AS redundant_experts, p.pcp AS pcp, p.micro_batches AS micro_batches, p.encoder_devices AS encoder_devices, p.num_devices AS num_devices, pr.linear_quantization AS linear_quantization, pr.experts_quantization AS experts_quantization, pr.attention_quantization AS attention_quantization, pr.mxfp4_group_size AS mxfp4_group_size, pr.mixers_quantization AS mixers_quantization, pr.head_quantization AS head_quantization, pr.drafts_quantization AS drafts_quantization, sj.compile AS compile, sj.convention AS convention, sj.serving_model AS serving_model, sj.serving_cost_ms AS serving_cost_ms, sj.shortest_length AS shortest_length, sj.prompts_per_user AS prompts_per_user, sj.poll_steps AS poll_steps, sj.seats AS seats, sj.wait_steps AS wait_steps, sj.routing AS routing, sj.unusual_service AS unusual_service, sc.launchable_by AS launchable, COALESCE(w.name, w.label) AS workload, w.key AS workload_key, w.input_length AS input_length, w.input_length_mean AS input_length_mean, w.output_length AS output_length, w.prefix_cache_hit_rate AS prefix_cache_hit_rate, w.host_hit_rate AS host_hit_rate, w.ssd_hit_rate AS ssd_hit_rate, w.remote_hit_rate AS remote_hit_rate, w.max_batched_tokens AS max_batched_tokens, w.mtp_tokens AS mtp_tokens, sj.phase AS phase, pb.batch_size AS batch_size, pb.concurrency AS concurrency, pb.ttft_ms AS ttft_ms, pb.prefill_step_ms AS prefill_step_ms, pb.prefill_chunks AS prefill_chunks, pb.makespan_ms AS makespan_ms, pb.decode_step_ms AS decode_step_ms, pb.tokens_per_step AS tokens_per_step, pb.tpot_inclusive_ms AS tpot_inclusive_ms, pb.tpot_exclusive_ms AS tpot_exclusive_ms, pb.e2e_ms AS e2e_ms, pb.weight_bytes AS weight_bytes, pb.kv_cache_bytes AS kv_cache_bytes, pb.kv_cache_mean_bytes AS kv_cache_mean_bytes, pb.activation_bytes AS activation_bytes, pb.kv_bytes_per_request AS kv_bytes_per_request, pb.prefill_step_matrix_ms AS prefill_step_matrix_ms, pb.prefill_step_vector_ms AS prefill_step_vector_ms, pb.prefill_step_memory_ms AS prefill_step_memory_ms, pb.prefill_step_communication_ms AS prefill_step_communication_ms, pb.prefill_step_overhead_ms AS prefill_step_overhead_ms, pb.decode_step_matrix_ms AS decode_step_matrix_ms, pb.decode_step_vector_ms AS decode_step_vector_ms, pb.decode_step_memory_ms AS decode_step_memory_ms, pb.decode_step_communication_ms AS decode_step_communication_ms, pb.decode_step_overhead_ms AS decode_step_overhead_ms, pb.realised_input_length_mean AS realised_input_length_mean, pb.decode_step_p50_ms AS decode_step_p50_ms, pb.decode_step_p90_ms AS decode_step_p90_ms, pb.decode_step_p99_ms AS decode_step_p99_ms, pb.prompt_service_ms AS prompt_service_ms, pb.ttft_in_step_ms AS ttft_in_step_ms FROM block b JOIN sweep sw ON sw.id = b.sweep_id JOIN scenario sc ON sc.id = b.scenario_id JOIN subject sj ON sj.id = sc.subject_id JOIN model m ON m.id = sj.model_id JOIN device d ON d.id = sc.device_id JOIN plan p ON p.id = sj.plan_id JOIN precision pr ON pr.id = sj.precision_id JOIN workload w ON w.id = sj.workload_id JOIN probe pb ON pb.scenario_id = b.scenario_id AND pb.batch_size BETWEEN b.first_batch_size AND b.last_batch_size WHERE NOT (EXISTS (SELECT 1 FROM tombstone t WHERE t.lifted_at IS NULL AND t.scenario_id = sc.id) OR (EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)) AND NOT EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id NOT IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL))) OR (EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL) AND pb.batch_size BETWEEN i.first_batch_size AND i.last_batch_size) AND NOT EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id NOT IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL) AND pb.batch_size BETWEEN i.first_batch_size AND i.last_batch_size)))) AS stored;
CREATE VIEW scenarios AS SELECT sc.id AS scenario_id, sj.key AS subject, sc.key AS scenario, sc.formula_version AS formula_version, d.family AS family, m.name AS model, m.architecture AS architecture, d.name AS device, d.key AS device_key, d.vendor AS vendor, d.memory_bytes AS device_memory_bytes, p.tp AS tp, p.pp AS pp, p.dp AS dp, p.ep AS ep, p.moe_tp AS moe_tp, p.moe_dp AS moe_dp, p.dcp AS dcp, p.redundant_experts AS redundant_experts, p.pcp AS pcp, p.micro_batches AS micro_batches, p.encoder_devices AS encoder_devices, p.num_devices AS num_devices, pr.linear_quantization AS linear_quantization, pr.experts_quantization AS experts_quantization, pr.attention_quantization AS attention_quantization, pr.mxfp4_group_size AS mxfp4_group_size, pr.mixers_quantization AS mixers_quantization, pr.head_quantization AS head_quantization, pr.drafts_quantization AS drafts_quantization, sj.compile AS compile, sj.convention AS convention, sj.serving_model AS serving_model, sj.serving_cost_ms AS serving_cost_ms, sj.shortest_length AS shortest_length, sj.prompts_per_user AS prompts_per_user, sj.poll_steps AS poll_steps, sj.seats AS seats, sj.wait_steps AS wait_steps, sj.routing AS routing, sj.unusual_service AS unusual_service, sc.launchable_by AS launchable, COALESCE(w.name, w.label) AS workload, w.key AS workload_key, w.input_length AS input_length, w.input_length_mean AS input_length_mean, w.output_length AS output_length, w.prefix_cache_hit_rate AS prefix_cache_hit_rate, w.host_hit_rate AS host_hit_rate, w.ssd_hit_rate AS ssd_hit_rate, w.remote_hit_rate AS remote_hit_rate, w.max_batched_tokens AS max_batched_tokens, w.mtp_tokens AS mtp_tokens, sj.phase AS phase, sc.status AS status, sc.reason AS reason, sc.assumptions AS assumptions, sc.created_at AS created_at, (EXISTS (SELECT 1 FROM tombstone t WHERE t.lifted_at IS NULL AND t.scenario_id = sc.id) OR (EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)) AND NOT EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id NOT IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)))) AS voided FROM scenario sc JOIN subject sj ON sj.id = sc.subject_id JOIN model m ON m.id = sj.model_id JOIN device d ON d.id = sc.device_id JOIN plan p ON p.id = sj.plan_id JOIN precision pr ON pr.id = sj.precision_id JOIN workload w ON w.id = sj.workload_id;
CREATE VIEW models AS SELECT id AS id, key AS key, name AS name, architecture AS architecture, parameters AS parameters, active_parameters AS active_parameters, spec AS spec FROM model;
CREATE VIEW devices AS SELECT id AS id, key AS key, name AS name, vendor AS vendor, family AS family, matrix_flops_per_s AS matrix_flops_per_s, vector_flops_per_s AS vector_flops_per_s, memory_bytes AS memory_bytes, memory_bandwidth_bytes_per_s AS memory_bandwidth_bytes_per_s, grid AS grid, link_bandwidths AS link_bandwidths, calibration_key AS calibration_key, spec AS spec FROM device;
CREATE VIEW prices AS SELECT device_name AS device_name, effective_from AS effective_from, usd_per_device_hour AS usd_per_device_hour, watts_per_device AS watts_per_device, source AS source FROM price;
CREATE VIEW sweeps AS SELECT id AS id, key AS key, label AS label, arguments AS arguments, program_version AS program_version, started_at AS started_at, finished_at AS finished_at, status AS status, probes_stored AS probes_stored, probes_known AS probes_known, scenarios_failed AS scenarios_failed, kind AS kind, CASE WHEN id IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL) THEN 1 ELSE 0 END AS voided FROM sweep;
CREATE VIEW sweep_intervals AS SELECT sw.key AS sweep, i.scenario_id, i.first_batch_size, i.last_batch_size FROM sweep_interval i JOIN sweep sw ON sw.id = i.sweep_id;
COMMIT;
