"""Other document forms of the same values: unified response, tool-call rows, events as documents."""

from tenuto.interop.delta_events import to_delta_events as to_delta_events
from tenuto.interop.delta_events import to_event_document as to_event_document
from tenuto.interop.tool_call_rows import from_data_json as from_data_json
from tenuto.interop.tool_call_rows import to_data_json as to_data_json
from tenuto.interop.unified import from_unified as from_unified
from tenuto.interop.unified import to_unified as to_unified
