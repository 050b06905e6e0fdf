package org.ep4j.conformance;

class HostReadmitTest extends ReadmitKit {
  @Override
  protected String engine() {
    return "host";
  }
}
