"""Makes batches on a test's server, without the openai package."""
import json
import urllib.request


def make_batch(server, requests, tokens):
    """Uploads a file of `requests` generations of `tokens` tokens each. Returns the id of the batch that works through it."""
    lines = [json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": "/v1/completions",
                         "body": {"prompt": [5 + i % 40, 6], "max_tokens": tokens, "temperature": 0, "ignore_eos": True}}) for i in range(requests)]
    parts = (("purpose", "", "batch"), ("file", '; filename="in.jsonl"', "\n".join(lines)))
    form = "".join(f'--edge\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n' for name, more, value in parts) + "--edge--\r\n"
    upload = urllib.request.Request(server.url + "/v1/files", form.encode(), {"Content-Type": "multipart/form-data; boundary=edge"})
    with urllib.request.urlopen(upload, timeout=60) as answer:
        file = json.load(answer)
    status, batch = server.post("/v1/batches", {"input_file_id": file["id"], "endpoint": "/v1/completions", "completion_window": "24h"})
    assert status == 200, batch
    return batch["id"]
