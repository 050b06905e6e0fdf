package org.ep4j.rdma.ucx.bindings;

/**
 * Constants of the UCX interface under their original names; a test compares them with the headers,
 * if installed.
 */
public final class UcpConstants {
  public static final int UCS_OK = 0;
  public static final int UCS_INPROGRESS = 1;

  /** The lowest status: a pointer above it (unsigned) is a status. */
  static final int UCS_ERR_LAST = -100;

  public static final int UCS_THREAD_MODE_SERIALIZED = 1;
  public static final int UCS_THREAD_MODE_MULTI = 2;
  public static final int UCS_MEMORY_TYPE_HOST = 0;

  public static final int UCP_PARAM_FIELD_FEATURES = 1;
  public static final int UCP_PARAM_FIELD_MT_WORKERS_SHARED = 1 << 5;
  public static final int UCP_PARAM_FIELD_ESTIMATED_NUM_EPS = 1 << 6;
  public static final int UCP_FEATURE_RMA = 1 << 1;
  public static final int UCP_FEATURE_AM = 1 << 6;
  public static final int UCP_ATTR_FIELD_THREAD_MODE = 1 << 1;

  public static final int UCP_WORKER_PARAM_FIELD_THREAD_MODE = 1;
  public static final int UCP_WORKER_ATTR_FIELD_ADDRESS = 1 << 1;

  public static final int UCP_AM_HANDLER_PARAM_FIELD_ID = 1;
  public static final int UCP_AM_HANDLER_PARAM_FIELD_FLAGS = 1 << 1;
  public static final int UCP_AM_HANDLER_PARAM_FIELD_CB = 1 << 2;
  public static final int UCP_AM_FLAG_WHOLE_MSG = 1;
  public static final int UCP_AM_SEND_FLAG_EAGER = 1 << 1;

  public static final int UCP_EP_PARAM_FIELD_REMOTE_ADDRESS = 1;
  public static final int UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE = 1 << 1;
  public static final int UCP_EP_PARAM_FIELD_ERR_HANDLER = 1 << 2;
  public static final int UCP_ERR_HANDLING_MODE_PEER = 1;
  public static final int UCP_EP_CLOSE_FLAG_FORCE = 1;

  public static final int UCP_MEM_MAP_PARAM_FIELD_ADDRESS = 1;
  public static final int UCP_MEM_MAP_PARAM_FIELD_LENGTH = 1 << 1;
  public static final int UCP_MEM_MAP_PARAM_FIELD_FLAGS = 1 << 2;
  public static final int UCP_MEM_MAP_ALLOCATE = 1 << 1;
  public static final int UCP_MEM_ATTR_FIELD_ADDRESS = 1;

  public static final int UCP_OP_ATTR_FIELD_FLAGS = 1 << 4;
  public static final int UCP_OP_ATTR_FIELD_MEMORY_TYPE = 1 << 6;
  public static final int UCP_OP_ATTR_FIELD_MEMH = 1 << 8;

  private UcpConstants() {}
}
