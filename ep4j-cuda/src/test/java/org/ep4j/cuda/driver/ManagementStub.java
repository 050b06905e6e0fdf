package org.ep4j.cuda.driver;

/** A stand-in for the driver's management library, in C. */
public final class ManagementStub {
  private ManagementStub() {}

  /** The library of a driver that joins hosts; {@code info} changes what it reports. */
  public static String source(String info) {
    return """
        #include <string.h>
        struct info {
          unsigned version;
          unsigned char cluster[16];
          int status;
          unsigned clique;
          unsigned char state;
          unsigned health;
        };
        int nvmlInit_v2(void) { return 0; }
        int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
          *device = (void *)bus;
          return strcmp(bus, "missing") ? 0 : 6;
        }
        int nvmlDeviceGetGpuFabricInfoV(void *device, struct info *info) {
          if (info->version != (sizeof *info | 2 << 24)) return 25;
          memset(info->cluster, 0xab, 16);
          info->status = 0;
          info->clique = 32766;
          info->state = 3;
        """
        + info
        + " return 0; }\n";
  }
}
